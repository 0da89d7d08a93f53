// Markdown tokens of an answer that grows, within limits: a text made to be slow to read must not stop the page.

import { Lexer, type Token, Tokenizer, type Tokens } from "marked";

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

/** A line that may begin a block or end a table or a heading; other lines continue the text before them. */
const MAY_BEGIN = /^(?: {4}| {0,3}\t|\s*$| {0,3}(?:[>[]|<[a-z!?/]|#{1,6}(?:\s|$)|`{3}|~{3}|[*+-](?:\s|$)|\d{1,9}[.)](?:\s|$)|(?:[*_-][ \t]*){3,}$|[|:-][|: \t-]*$|=+ *$))/i;

/** How much text the rules may be tried on for the lines of items, in characters. */
const MOST_TRIED = 4 << 20;

/**
 * In the items of lists, the lexer tries all rules on the rest of the text at each line. Here the lines of a text that cannot begin
 * anything else are taken at once: an item of thousands of lines took seconds.
 */
class RunTokenizer extends Tokenizer {
  private tried = 0;

  override text(src: string): Tokens.Text | undefined {
    const first = super.text(src);
    if (!first) return first;
    this.tried += src.length;
    if (this.tried > MOST_TRIED) throw new RangeError("too many lines that may begin a block");
    let end = first.raw.length;
    while (!MAY_BEGIN.test(first.raw)) {
      const next = src.indexOf("\n", end + 1);
      // The last line stays for the lexer, because the one behind it counts too.
      if (next < 0 || MAY_BEGIN.test(src.slice(end + 1, next))) break;
      const after = src.indexOf("\n", next + 1);
      if (MAY_BEGIN.test(src.slice(next + 1, after < 0 ? undefined : after))) break;
      end = next;
    }
    const run = src.slice(0, end);
    const span = this.lexer.inlineQueue.at(-1);
    if (span) span.src = run;
    return { ...first, raw: run, text: run };
  }
}

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
  const lexer = new Lexer({ gfm: true, tokenizer: new RunTokenizer() });
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
    // Quotes or lists that are nested too deeply for the stack, or items that take too long.
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
