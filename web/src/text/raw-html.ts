// Comments and other blocks of raw HTML in Markdown, in which no line proposes a command, as
// src/turn/command_extractor/raw_html.rs finds them: https://spec.commonmark.org/0.31.2/#html-blocks.

import { listMarkers } from "./line-kind";

const TAGS = "(?:pre|script|style|textarea)";
const TAG_END = new RegExp(`</${TAGS}>`);
const TAG_START = new RegExp(`^<${TAGS}(?=\\s|>|$)`);
/** A comment that began within a paragraph ends with a blank line too. */
const INLINE = /^\s*$|-->/;

/** Follows the lines of a text. */
export class RawHtmlScanner {
  /** What ends the HTML that the next line is part of. */
  private end: RegExp | null = null;

  get isOpen(): boolean {
    return this.end !== null;
  }

  pushLine(whole: string) {
    const line = whole.toLowerCase();
    let rest = line;
    let { end } = this;
    if (!end) {
      const content = line.replace(/^[ \t]+/, "");
      const start = content.slice(listMarkers(content).length).replace(/^[ \t]+/, "");
      const begun = blockEnd(start);
      end = begun;
      // The hyphens of the start of a comment may be those of its end.
      rest = begun ? start.slice(2) : line;
    }
    const found = end?.exec(rest);
    if (end && !found) this.end = end;
    else this.end = endOfInline(found ? rest.slice(found.index + found[0].length) : rest);
  }
}

/** What ends the block that the line begins. */
function blockEnd(line: string): RegExp | null {
  if (line.startsWith("<!--")) return /-->/;
  if (line.startsWith("<?")) return /\?>/;
  if (line.startsWith("<![cdata[")) return /\]\]>/;
  if (/^<![a-z]/.test(line)) return />/;
  return TAG_START.test(line) ? TAG_END : null;
}

/** What ends the comment that a line of a paragraph leaves open. In a code span, and after a backslash, `<!--` is text. */
function endOfInline(line: string): RegExp | null {
  let rest = line;
  for (;;) {
    const at = rest.search(/[\\`<]/);
    if (at < 0) return null;
    rest = rest.slice(at);
    const marks = /^`+/.exec(rest)?.[0];
    if (rest[0] === "\\") rest = rest.slice(2);
    else if (marks) rest = afterCodeSpan(rest.slice(marks.length), marks.length);
    else if (rest.startsWith("<!--")) {
      const end = rest.indexOf("-->", 2);
      if (end < 0) return INLINE;
      rest = rest.slice(end + 3);
    } else rest = rest.slice(1);
  }
}

/** What follows the code span that begins with so many backticks before the text; the text if it does not end. */
function afterCodeSpan(text: string, length: number): string {
  for (const run of text.matchAll(/`+/g)) if (run[0].length === length) return text.slice(run.index + length);
  return text;
}
