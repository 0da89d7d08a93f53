// Markdown tokens of an answer that grows, within limits: a text made to be slow to read must not stop the page.

import { Lexer, type Token } from "marked";

/** Blocks at the end that may still change while text is added. */
const OPEN_BLOCKS = 2;
/** Characters per step. */
const STEP = 16 * 1024;
/** Length of one block beyond which it is shown as it is, in characters. */
const LONGEST_BLOCK = 64 * 1024;
/** Length of a paragraph beyond which its marks are shown as text: some take time that grows with the square of it. */
const LONGEST_INLINE = 6000;

/** A line with so many marks of quotes or lists in a row that reading them would use up the stack. */
const TOO_DEEP = /^(?:[ \t]{0,8}(?:>|[*+-](?=[ \t])|\d{1,9}[.)](?=[ \t]))){24}/m;

/** A text that is shown as it is. */
const raw = (text: string): Token => ({ type: "html", raw: text, text, block: true, pre: false });

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
  private tokens: Token[] = [];

  lex(text: string): Token[] {
    if (text === this.text) return this.tokens;
    if (!text.startsWith(this.doneText)) {
      this.done = [];
      this.doneText = "";
    }
    for (let end = this.doneText.length + STEP; end < text.length; end += STEP) this.step(text.slice(0, end));
    this.step(text);
    this.text = text;
    return this.tokens;
  }

  private step(text: string) {
    const open = text.slice(this.doneText.length);
    if (open.length > LONGEST_BLOCK) {
      this.tokens = [...this.done, raw(open)];
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
