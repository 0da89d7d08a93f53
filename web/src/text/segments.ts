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

/** An answer that is shown: its segments with their tokens. */
export class ShownText {
  private lexers: GrowingLexer[] = [];

  /** Returns the segments; tokens of parts that have not changed are the same objects as before. */
  parts(text: string, proposals: ProposalView[]): { segment: Segment; tokens: Token[] }[] {
    return segments(text, proposals).map((segment, i) => {
      if (segment.kind === "command") return { segment, tokens: [] };
      const lexer = (this.lexers[i] ??= new GrowingLexer());
      return { segment, tokens: lexer.lex(segment.text.replace(/\r\n?/g, "\n")) };
    });
  }
}
