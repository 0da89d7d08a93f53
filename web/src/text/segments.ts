// Splits an answer into Markdown and proposed commands, as the terminal does (src/turn/command_extractor.rs).

import type { Token } from "marked";
import { GrowingLexer } from "./lexer";
import { type Fence, type LineKind, classify, isBlank, lineKind } from "./line-kind";
import { RawHtmlScanner } from "./raw-html";
import { SyntaxScanner } from "./shell-syntax";

export type Segment =
  | { kind: "command"; text: string }
  | { kind: "markdown"; text: string };

/** Maximum length of a command, in characters and lines: a longer one stays text. */
const LONGEST = 64 * 1024;
const MOST_LINES = 200;

const trimBlanks = (text: string) => text.replace(/^[ \t\r\n]+|[ \t\r\n]+$/g, "");

/** A command that takes further lines. */
type Pending = { lines: string; count: number; first: number } & (
  | { kind: "lines"; mark: number; syntax: SyntaxScanner }
  /** An empty `CMD:` line, below which a code block may begin. */
  | { kind: "heading" }
  /** A code block below `CMD:`. */
  | { kind: "block"; command: string; indent: number; sign: string; length: number }
);

/**
 * Finds the commands: `CMD:` lines of the answer itself with the lines that complete them, code blocks of such lines only, and
 * code blocks below `CMD:`. Of an answer that is not whole, what the end may change is text.
 */
export function segments(text: string, isWhole = true): Segment[] {
  return new Extractor(text, isWhole).run();
}

class Extractor {
  private readonly lines: string[];
  private readonly found: Segment[] = [];
  private markdown = "";
  private fence: Fence | null = null;
  private pending: Pending | null = null;
  private html = new RawHtmlScanner();
  private at = 0;

  constructor(
    text: string,
    private readonly isWhole: boolean,
  ) {
    this.lines = text.match(/[^\n]*\n|[^\n]+$/g) ?? [];
  }

  run(): Segment[] {
    for (;;) {
      while (this.at < this.lines.length) this.line(this.lines[this.at] ?? "");
      if (!this.pending) break;
      if (!this.isWhole) {
        this.showText(this.pending.lines);
        break;
      }
      if (this.pending.kind === "block") this.endPending(this.pending);
      else this.giveUp(this.pending);
    }
    const block = this.isWhole && this.fence?.held;
    if (block && block.commands.length > 0) this.emit(...block.commands);
    else this.showBlock();
    this.flush();
    return this.found;
  }

  private line(line: string) {
    const { pending } = this;
    // Half a line: it may become anything.
    const isHalf = !this.isWhole && !line.endsWith("\n");
    if (pending && !isHalf) return this.more(pending, line);
    this.at += 1;
    if (pending) pending.lines += line;
    else if (isHalf || this.html.isOpen) this.showText(line);
    else this.start(line, lineKind(line, this.fence));
  }

  private start(line: string, kind: LineKind) {
    const { fence } = this;
    switch (kind.kind) {
      case "mark":
        return this.mark(line, kind.length);
      case "blank":
        return this.hold(line);
      case "opens":
        if (!kind.mayPropose) this.showText(line);
        this.fence = { ...kind.fence, held: kind.mayPropose ? { lines: line, commands: [] } : null };
        return;
      case "closes":
        if (fence?.held?.commands.length) this.emit(...fence.held.commands);
        else this.showText(line);
        this.fence = null;
        return;
      default:
        return this.showText(line);
    }
  }

  /** Handles a line with a mark of this length. */
  private mark(line: string, mark: number) {
    if (line.length > LONGEST) return this.showText(line);
    const isQuoted = line[mark - "CMD:".length - 1] === "`";
    const words = trimBlanks(line.slice(mark));
    if (!isQuoted && line.endsWith("\n")) {
      this.pending = this.begin(line, mark, words);
      if (this.pending) return;
    }
    const inner = /^([^`]*)`$/.exec(words)?.[1];
    // Without the second backtick, the first one marks a word in prose.
    const command = isQuoted ? inner?.replace(/^[ \t]+|[ \t]+$/g, "") : unquote(words);
    if (command === undefined || isBlank(command)) this.showText(line);
    else this.propose(command, line);
  }

  /** The command of the line if it takes further lines. */
  private begin(line: string, mark: number, words: string): Pending | null {
    const base = { lines: line, count: 1, first: this.at - 1 };
    if (!words) return this.fence ? null : { ...base, kind: "heading" };
    const kind = classify(words, null, true);
    if (kind.kind === "opens" && !this.fence && isBlock(kind)) return { ...base, ...block(0, kind.fence) };
    const syntax = new SyntaxScanner();
    syntax.pushLine(unquote(words));
    return syntax.isComplete ? null : { ...base, kind: "lines", mark, syntax };
  }

  /** Handles a line below a command that takes more. */
  private more(pending: Pending, line: string) {
    const isLong = pending.lines.length + line.length > LONGEST || pending.count === MOST_LINES;
    const fit = isLong ? "foreign" : this.fit(pending, line);
    if (fit === "foreign") return this.giveUp(pending);
    this.at += 1;
    pending.lines += line;
    pending.count += 1;
    if (fit === "completes") this.endPending(pending);
    else if (fit !== "more") this.pending = { ...pending, ...fit };
  }

  /** What a line means for the command above it: it may also begin the code block of the command. */
  private fit(pending: Pending, line: string): "more" | "completes" | "foreign" | ReturnType<typeof block> {
    const kind = classify(line, this.fence, true);
    const content = line.replace(/[\r\n]+$/, "");
    const start = content.replace(/^ +/, "");
    const indent = content.length - start.length;
    switch (pending.kind) {
      case "lines":
        if (kind.kind === "mark" || kind.kind === "closes") return "foreign";
        if (kind.kind === "opens" && !pending.syntax.isInHeredoc) return "foreign";
        pending.syntax.pushLine(content);
        return pending.syntax.isComplete ? "completes" : "more";
      case "heading":
        if (kind.kind === "opens" && isBlock(kind)) return block(indent, kind.fence);
        return isBlank(start) ? "more" : "foreign";
      case "block": {
        const signs = start.replace(/[ \t]+$/, "");
        const isEnd = indent <= 3 && [...signs].every((sign) => sign === pending.sign) && signs.length >= pending.length;
        if (isEnd) return "completes";
        // A block of `CMD:` lines.
        if (start.startsWith("CMD:")) return "foreign";
        pending.command += `${content.slice(Math.min(indent, pending.indent))}\n`;
        return "more";
      }
    }
  }

  private endPending(pending: Pending) {
    this.pending = null;
    const whole =
      pending.kind === "lines" ? pending.lines.slice(pending.mark).replaceAll("\r\n", "\n")
      : pending.kind === "block" ? pending.command
      : "";
    const command = trimBlanks(whole);
    if (isBlank(command)) this.showText(pending.lines);
    else this.propose(command, pending.lines);
  }

  /** Of a command that is never complete, the first line is proposed alone, and the others are handled anew. */
  private giveUp(pending: Pending) {
    this.pending = null;
    this.at = pending.first + 1;
    const line = this.lines[pending.first] ?? "";
    const command = pending.kind === "lines" ? unquote(trimBlanks(line.slice(pending.mark))) : "";
    if (isBlank(command)) this.showText(line);
    else this.propose(command, line);
  }

  /** Proposes the command of these lines. In a code block it waits for the end of the block. */
  private propose(command: string, lines: string) {
    if (!this.fence) return this.emit(command);
    this.hold(lines);
    this.fence.held?.commands.push(command);
  }

  private emit(...commands: string[]) {
    this.flush();
    for (const text of commands) this.found.push({ kind: "command", text });
    if (this.fence) this.fence.held = null;
  }

  /** Adds lines to the held code block. */
  private hold(lines: string) {
    const held = this.fence?.held;
    if (held && held.lines.length + lines.length <= LONGEST) held.lines += lines;
    else this.showText(lines);
  }

  private showText(text: string) {
    this.showBlock();
    // In a code block, HTML is code.
    if (!this.fence) for (const line of text.match(/[^\n]*\n/g) ?? []) this.html.pushLine(line);
    this.markdown += text;
  }

  /** Shows the held code block, because it has other text than commands. */
  private showBlock() {
    if (!this.fence?.held) return;
    this.markdown += this.fence.held.lines;
    this.fence.held = null;
  }

  private flush() {
    if (!isBlank(this.markdown)) this.found.push({ kind: "markdown", text: this.markdown });
    this.markdown = "";
  }
}

/** Whether the block may be a command as a whole: not one in a list. */
const isBlock = (opened: { fence: Fence; mayPropose: boolean }) => opened.mayPropose && opened.fence.offset === 0;

const block = (indent: number, { sign, length }: Fence) => ({ kind: "block" as const, command: "", indent, sign, length });

/** Models like to put the command into backticks. */
function unquote(command: string): string {
  return /^`([^`]*)`$/.exec(command)?.[1]?.replace(/^[ \t]+|[ \t]+$/g, "") ?? command;
}

/** An answer that is shown: its segments with their tokens. */
export class ShownText {
  private lexers: GrowingLexer[] = [];

  /** Returns the segments; tokens of parts that have not changed are the same objects as before. */
  parts(text: string, isWhole: boolean): { segment: Segment; tokens: Token[] }[] {
    return segments(text, isWhole).map((segment, i) => {
      if (segment.kind === "command") return { segment, tokens: [] };
      const lexer = (this.lexers[i] ??= new GrowingLexer());
      return { segment, tokens: lexer.lex(segment.text.replace(/\r\n?/g, "\n")) };
    });
  }
}
