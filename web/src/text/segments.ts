// Splits an answer into Markdown and proposed commands.

import type { Token } from "marked";
import { GrowingLexer } from "./lexer";

export type Segment =
  | { kind: "command"; text: string }
  | { kind: "markdown"; text: string };

const FENCE = /^ {0,3}(`{3,}|~{3,})(.*)$/;
const COMMAND = /^ {0,3}CMD:(.*)$/;

/**
 * Finds the commands: lines beginning with `CMD:` outside of code blocks, and code blocks of such lines only. A command that
 * ends with a backslash takes the next line too.
 */
export function segments(text: string): Segment[] {
  const lines = text.split("\n");
  const found: Segment[] = [];
  let markdown: string[] = [];
  const flush = () => {
    if (markdown.some((line) => line.trim())) found.push({ kind: "markdown", text: markdown.join("\n") });
    markdown = [];
  };
  for (let i = 0; i < lines.length; ) {
    const line = lines[i] ?? "";
    if (FENCE.test(line)) {
      const end = fenceEnd(lines, i);
      const commands = commandsOf(lines.slice(i + 1, end));
      if (commands) {
        flush();
        commands.forEach((command) => found.push({ kind: "command", text: command }));
      } else markdown.push(...lines.slice(i, end + 1));
      i = end + 1;
      continue;
    }
    const first = COMMAND.exec(line)?.[1];
    if (first === undefined) {
      markdown.push(line);
      i += 1;
      continue;
    }
    if (!first.trim() && FENCE.test(lines[i + 1] ?? "")) {
      const end = fenceEnd(lines, i + 1);
      flush();
      found.push({ kind: "command", text: lines.slice(i + 2, end).join("\n") });
      i = end + 1;
      continue;
    }
    if (!first.trim()) {
      markdown.push(line);
      i += 1;
      continue;
    }
    const command = [first.trim()];
    while (/(^|[^\\])(\\\\)*\\$/.test(command[command.length - 1] ?? "") && i + 1 < lines.length) {
      i += 1;
      command.push((lines[i] ?? "").trimEnd());
    }
    flush();
    found.push({ kind: "command", text: unquote(command.join("\n")) });
    i += 1;
  }
  flush();
  return found;
}

/** Index of the line that closes the block opened at `start`; behind the last line if none does. */
function fenceEnd(lines: string[], start: number): number {
  const mark = FENCE.exec(lines[start] ?? "")?.[1] ?? "```";
  const close = new RegExp(`^ {0,3}${mark[0]}{${mark.length},}\\s*$`);
  for (let i = start + 1; i < lines.length; i++) if (close.test(lines[i] ?? "")) return i;
  return lines.length;
}

function commandsOf(lines: string[]): string[] | null {
  const full = lines.filter((line) => line.trim());
  if (full.length === 0) return null;
  const commands = full.map((line) => COMMAND.exec(line)?.[1]?.trim());
  return commands.every((command): command is string => !!command) ? commands : null;
}

/** Models like to put the command into backticks. */
function unquote(command: string): string {
  const inner = /^`([^`]+)`$/.exec(command)?.[1];
  return inner ?? command;
}

/** An answer that is shown: its segments with their tokens. */
export class ShownText {
  private lexers: GrowingLexer[] = [];

  /** Returns the segments; tokens of parts that have not changed are the same objects as before. */
  parts(text: string): { segment: Segment; tokens: Token[] }[] {
    return segments(text.replace(/\r\n?/g, "\n")).map((segment, i) => {
      if (segment.kind === "command") return { segment, tokens: [] };
      const lexer = (this.lexers[i] ??= new GrowingLexer());
      return { segment, tokens: lexer.lex(segment.text) };
    });
  }
}
