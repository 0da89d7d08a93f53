// Markdown tokens of an answer that grows, within limits: a text made to be slow to read must not stop the page.

import { Lexer, type Token } from "marked";

/** Blocks at the end that may still change while text is added. */
const OPEN_BLOCKS = 2;
/** Characters per step. */
const STEP = 16 * 1024;
/** Length of one block beyond which it, and all after it, is shown as it is, in characters. */
const LONGEST_BLOCK = 64 * 1024;
/** Length of a paragraph beyond which its marks are shown as text: some take time that grows with the square of it. */
const LONGEST_INLINE = 6000;

/** A line with so many marks of quotes or lists in a row that reading them would use up the stack. */
const TOO_DEEP = /^(?:[ \t]{0,8}(?:>|[*+-](?=[ \t])|\d{1,9}[.)](?=[ \t]))){24}/m;

/** A text that is shown as it is. */
const raw = (text: string): Token => ({ type: "html", raw: text, text, block: true, pre: false });

/** Type of a token that is a part of a long text that is shown as it is. */
export const RAW_PART = "raw_part";

/** Where the first part of a long text ends: behind a line, if there is one, and not within a character. */
function partEnd(text: string): number {
  const line = text.lastIndexOf("\n", STEP - 1) + 1;
  return line || STEP - Number(/[\ud800-\udbff]/.test(text.charAt(STEP - 1)));
}

function tokensOf(text: string): Token[] {
  if (TOO_DEEP.test(text)) return [raw(text)];
  const lexer = new Lexer({ gfm: true });
  try {
    lexer.blockTokens(text, lexer.tokens);
    // Reading a span may add spans to the end of the queue.
    for (let i = 0; i < lexer.inlineQueue.length; i++) {
      const span = lexer.inlineQueue[i];
      if (!span) break;
      if (span.src.length <= LONGEST_INLINE) lexer.inlineTokens(span.src, span.tokens);
      else span.tokens.push({ type: "text", raw: span.src, text: span.src, escaped: false });
    }
    return lexer.tokens;
  } catch {
    // Quotes or lists that are nested too deeply for the stack.
    return [raw(text)];
  }
}

/** The tokens of a text that grows at its end: only its last blocks are read again. */
export class GrowingLexer {
  private done: Token[] = [];
  private doneText = "";
  private text = "";
  private isRaw = false;
  private tokens: Token[] = [];

  lex(text: string): Token[] {
    if (text === this.text) return this.tokens;
    if (!text.startsWith(this.doneText)) {
      this.done = [];
      this.doneText = "";
      this.isRaw = false;
    }
    for (let end = this.doneText.length + STEP; end < text.length; end += STEP) this.step(text.slice(0, end));
    this.step(text);
    this.text = text;
    return this.tokens;
  }

  private step(text: string) {
    let open = text.slice(this.doneText.length);
    this.isRaw ||= open.length > LONGEST_BLOCK;
    if (this.isRaw) {
      // In parts: to lay out a text of megabytes again for each addition takes seconds.
      const part = (source: string): Token => ({ type: RAW_PART, raw: source });
      while (open.length > STEP) {
        const end = partEnd(open);
        this.done.push(part(open.slice(0, end)));
        // A part of the text, which need not be copied to be compared.
        this.doneText = text.slice(0, this.doneText.length + end);
        open = open.slice(end);
      }
      this.tokens = [...this.done, part(open)];
      return;
    }
    const rest = tokensOf(open);
    this.tokens = [...this.done, ...rest];
    const stable = rest.slice(0, Math.max(0, rest.length - OPEN_BLOCKS));
    const source = stable.map((token) => token.raw).join("");
    // The lexer may have changed the text, such as its tabs: then nothing is kept.
    if (source && open.startsWith(source)) {
      this.done = [...this.done, ...stable];
      this.doneText += source;
    }
  }
}
