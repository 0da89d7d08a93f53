// Splits an answer into Markdown and the commands that it proposes. The server says where they are.

import type { Token } from "marked";
import type { ProposalView } from "../api/types";
import { GrowingLexer } from "./lexer";

export type Segment =
  | { kind: "command"; text: string }
  | { kind: "markdown"; text: string };

/** Returns the parts of a text. It may be the beginning of the answer: then the proposals after it are left out. */
export function segments(text: string, proposals: ProposalView[]): Segment[] {
  if (proposals.length === 0) return markdown(text);
  const lines = text.match(/[^\n]*\n|[^\n]+$/g) ?? [];
  const part = (start: number, end?: number) => markdown(lines.slice(start, end).join(""));
  let at = 0;
  const found = proposals
    .filter(({ first_line }) => first_line < lines.length)
    .flatMap(({ first_line, lines, commands }) => {
      const before = part(at, first_line);
      at = first_line + lines;
      return [...before, ...commands.map((command): Segment => ({ kind: "command", text: command }))];
    });
  return [...found, ...part(at)];
}

const markdown = (text: string): Segment[] => (text.trim() ? [{ kind: "markdown", text }] : []);

/** Returns the segments up to a number of characters. */
function beginning(all: Segment[], limit: number): Segment[] {
  let left = limit;
  return all.flatMap((segment) => {
    if (left <= 0) return [];
    const text = segment.kind === "markdown" ? segment.text.slice(0, left) : segment.text;
    left -= text.length;
    return [{ ...segment, text }];
  });
}

/** An answer that is shown: its segments with their tokens. */
export class ShownText {
  private lexers: GrowingLexer[] = [];
  private text = "";
  private proposals: ProposalView[] = [];
  private segments: Segment[] = [];

  /** Returns the segments of about the first `limit` characters; tokens of parts that have not changed are the same objects as before. */
  parts(text: string, proposals: ProposalView[], limit = Infinity): { segment: Segment; tokens: Token[] }[] {
    if (text !== this.text || proposals !== this.proposals) this.segments = segments(text, proposals);
    Object.assign(this, { text, proposals });
    return beginning(this.segments, limit).map((segment, i) => {
      if (segment.kind === "command") return { segment, tokens: [] };
      const lexer = (this.lexers[i] ??= new GrowingLexer());
      return { segment, tokens: lexer.lex(segment.text.includes("\r") ? segment.text.replace(/\r\n?/g, "\n") : segment.text) };
    });
  }
}
