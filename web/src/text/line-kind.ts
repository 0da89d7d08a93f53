// What the beginning of a line of an answer means for proposed commands, as src/turn/command_extractor/line_kind.rs says.

const MARK = "CMD:";
/** Models also put the line in a list or in backticks. */
const MARKS = [MARK, "- CMD:", "* CMD:", "`CMD:"];
/** Length up to which a line may still become a fence. */
const MAX_HELD = 256;

/** An open code block. */
export interface Fence {
  sign: string;
  length: number;
  /** Width of the list markers before it, by which its lines may be indented. */
  offset: number;
  /** The block so far, as long as it has only commands and blank lines. */
  held: { lines: string; commands: string[] } | null;
}

export type LineKind =
  | { kind: "open" | "text" | "blank" | "closes" }
  /** A command after a mark of this length. */
  | { kind: "mark"; length: number }
  /** A fence. One that Markdown counts only within a list, or not at all, still quotes what is in it. */
  | { kind: "opens"; fence: Fence; mayPropose: boolean };

/** Blank as Rust has it: a byte order mark is not. */
export const isBlank = (text: string) => /^\p{White_Space}*$/u.test(text);

const TEXT: LineKind = { kind: "text" };
const OPEN: LineKind = { kind: "open" };

/** Classifies a line by its beginning, as much of it as is needed, as a reader of a stream does. */
export function lineKind(line: string, fence: Fence | null): LineKind {
  for (let length = 8; length < line.length; length += 8) {
    const known = classify(line.slice(0, length), fence, false);
    if (known !== OPEN) return known;
  }
  return classify(line, fence, true);
}

/** Classifies the beginning of a line; `isWhole` if there is no more of it. */
export function classify(held: string, fence: Fence | null, isWhole: boolean): LineKind {
  const isLong = held.length > MAX_HELD;
  if (fence?.held && !isLong && /^[ \t\r\n]*$/.test(held)) return isWhole ? { kind: "blank" } : OPEN;
  const rest = held.replace(/^[ \t]+/, "");
  const spaces = held.slice(0, held.length - rest.length);
  const tabs = spaces.split("\t").length - 1;
  const indent = spaces.length + 3 * tabs;
  const isDeep = indent > 3 + (fence?.offset ?? 0);
  if (fence && (isDeep || isLong)) return TEXT;
  // Within a code block, a bullet or a backtick is code, and after other code so is the mark.
  const marks = isDeep || isLong || tabs > 0 ? [] : !fence ? MARKS : fence.held ? [MARK] : [];
  const mark = marks.find((known) => rest.startsWith(known));
  if (mark) return { kind: "mark", length: spaces.length + mark.length };
  if (!isLong && !isWhole && (rest === "" || marks.some((known) => known.startsWith(rest)))) return OPEN;
  const { length: markers, mayGrow } = fence ? { length: 0, mayGrow: false } : listMarkers(rest);
  if (mayGrow && !isWhole && !isLong) return OPEN;
  const [run = "", sign = ""] = /^(`|~)\1*/.exec(rest.slice(markers)) ?? [];
  if (!run || (fence && sign !== fence.sign)) return TEXT;
  const info = rest.slice(markers + run.length);
  if (!info && !isWhole && !isLong) return OPEN;
  const isFence = fence ? run.length >= fence.length && isBlank(info) : run.length >= 3 && !(sign === "`" && info.includes("`"));
  if (!isFence) return TEXT;
  if (!isWhole && !isLong) return OPEN;
  if (fence) return { kind: "closes" };
  return {
    kind: "opens",
    fence: { sign, length: run.length, offset: markers + (isDeep ? indent : 0), held: null },
    // A lone CR is a line end for Markdown: the block has other text.
    mayPropose: !isDeep && !isLong && !info.trimEnd().includes("\r"),
  };
}

/** The length of the markers of lists and quotations at the beginning of a line, and whether what follows may still become one. */
export function listMarkers(line: string): { length: number; mayGrow: boolean } {
  let at = 0;
  for (;;) {
    const start = at + (/^[ \t]*/.exec(line.slice(at))?.[0].length ?? 0);
    const rest = line.slice(start);
    if (!rest) return { length: at, mayGrow: at > 0 };
    if (rest[0] === ">") {
      at = start + 1;
      continue;
    }
    const marker = /^(?:[-*+]|\d{1,9}(?:[.)]|$))/.exec(rest)?.[0].length;
    if (marker === undefined) return { length: start, mayGrow: false };
    if (marker === rest.length) return { length: at, mayGrow: true };
    if (rest[marker] !== " " && rest[marker] !== "\t") return { length: start, mayGrow: false };
    at = start + marker + 1;
  }
}
