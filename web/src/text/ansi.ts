// Colours and weights of terminal output (SGR), and lines that are written over, such as those of a progress bar or a spinner. All other
// escape sequences are dropped.

export interface AnsiSpan {
  text: string;
  /** Names of CSS classes, such as `ansi-1 ansi-bold`; empty for plain text. */
  classes: string;
}

interface Style {
  foreground: number | null;
  background: number | null;
  flags: Set<string>;
}

// CSI sequences; OSC, DCS, APC, PM and SOS strings up to their end, or to that of the line: one that never ends must not hide
// what follows; other two-character escapes.
const ESCAPE =
  /(?:\u001b\[|\u009b)([0-?]*)[ -/]*([@-~])|(?:\u001b[\]PX^_]|[\u009d\u0090\u0098\u009e\u009f])[^\u0007\u001b\u009c\n]*(?:\u0007|\u001b\\|\u009c|(?=\n)|$)|\u001b[ -/]*[0-~]?/g;

/** Drops all escape sequences and keeps the words, of text that no terminal shows. */
export const withoutEscapes = (text: string) => text.replace(/\r\n?/g, "\n").replace(ESCAPE, "");

/** What makes a program write over what it has written: returns, steps back, erased lines, and moves to a column. */
const REWRITES = /[\r\b]|(?:\u001b\[|\u009b)\d*[GK]/;
/** Columns to which a move can go beyond the end of the line. */
const WIDEST = 500;

const FLAGS: Record<number, string> = { 1: "bold", 2: "dim", 3: "italic", 4: "underline", 7: "inverse", 9: "strike" };
const FLAG_ENDS: Record<number, string[]> = { 22: ["bold", "dim"], 23: ["italic"], 24: ["underline"], 27: ["inverse"], 29: ["strike"] };

/** Splits output into spans of one style. */
export function ansiSpans(output: string): AnsiSpan[] {
  const text = output.replace(/\r+\n/g, "\n");
  const spans: AnsiSpan[] = [];
  const style: Style = { foreground: null, background: null, flags: new Set() };
  let end = 0;
  const add = (part: string, names: string) => {
    const last = spans[spans.length - 1];
    if (last && last.classes === names) last.text += part;
    else if (part) spans.push({ text: part, classes: names });
  };
  const isRewritten = REWRITES.test(text);
  /** The characters of the line that is written, and where the next one goes. */
  const line: AnsiSpan[] = [];
  let column = 0;
  /** Characters at the start of the line that are erased: they are not erased again. */
  let erased = 0;
  const endLine = () => {
    for (const { text: char, classes: names } of line) add(char, names);
    line.length = column = erased = 0;
  };
  const write = (part: string) => {
    const names = classes(style);
    if (!isRewritten) return add(part, names);
    for (const char of part) {
      if (char === "\r") column = 0;
      else if (char === "\b") column = Math.max(0, column - 1);
      else if (char === "\n") {
        endLine();
        add(char, names);
      } else {
        // An erased line keeps the column of the cursor.
        while (line.length < column) line.push({ text: " ", classes: "" });
        erased = Math.min(erased, column);
        line[column++] = { text: char, classes: names };
      }
    }
  };
  /** Erases the rest of the line, its start up to the cursor, or all of it. The cursor stays. */
  const erase = (mode: string) => {
    if (mode === "1") {
      line.fill({ text: " ", classes: "" }, erased, column + 1);
      erased = Math.max(erased, Math.min(column + 1, line.length));
    } else {
      line.length = mode === "2" ? 0 : Math.min(column, line.length);
      erased = Math.min(erased, line.length);
    }
  };
  for (const match of text.matchAll(ESCAPE)) {
    write(text.slice(end, match.index));
    end = match.index + match[0].length;
    if (match[2] === "m") apply(style, match[1] ?? "");
    if (match[2] === "K") erase(match[1] ?? "");
    if (match[2] === "G") column = Math.min(Math.max(Number(match[1]) || 1, 1) - 1, Math.max(line.length, WIDEST));
  }
  write(text.slice(end));
  endLine();
  return spans;
}

function classes(style: Style): string {
  const names = [...style.flags].sort().map((flag) => `ansi-${flag}`);
  if (style.foreground !== null) names.push(`ansi-${style.foreground}`);
  if (style.background !== null) names.push(`ansi-on-${style.background}`);
  return names.join(" ");
}

/** Codes of colours that have more numbers: of the text, of its background, of its underline. */
const EXTENDED = [38, 48, 58];

function apply(style: Style, parameters: string) {
  // With one of these the sequence sets something of the terminal.
  if (/[<=>?]/.test(parameters)) return;
  const codes = parameters.split(";");
  for (let i = 0; i < codes.length; i++) {
    const [code = 0, ...more] = (codes[i] ?? "").split(":").map(Number);
    if (EXTENDED.includes(code)) {
      // 38:2:R:G:B, or with a colour space, which may be empty: 38:2::R:G:B.
      const rgb = more[0] === 2 && more.length > 4 ? [2, ...more.slice(2)] : more;
      const [colour, used] = extended(more.length ? rgb : codes.slice(i + 1).map(Number));
      if (code === 38) style.foreground = colour;
      else if (code === 48) style.background = colour;
      if (more.length === 0) i += used;
    } else if (code === 4 && more.length) set(style, more[0] ? 4 : 24);
    else set(style, code);
  }
}

function set(style: Style, code: number) {
  if (code === 0) {
    style.foreground = style.background = null;
    style.flags.clear();
  } else if (FLAGS[code]) style.flags.add(FLAGS[code]);
  else if (FLAG_ENDS[code]) FLAG_ENDS[code].forEach((flag) => style.flags.delete(flag));
  else if (code >= 30 && code <= 37) style.foreground = code - 30;
  else if (code >= 90 && code <= 97) style.foreground = code - 82;
  else if (code === 39) style.foreground = null;
  else if (code >= 40 && code <= 47) style.background = code - 40;
  else if (code >= 100 && code <= 107) style.background = code - 92;
  else if (code === 49) style.background = null;
}

/** Reads `5;N` or `2;R;G;B`: the nearest of the 16 colours, whose contrast the style sheet guarantees. */
function extended(codes: number[]): [number | null, number] {
  if (codes[0] === 5) {
    const n = codes[1] ?? 0;
    if (n < 16) return [n, 2];
    if (n > 231) return [n > 243 ? 7 : 8, 2];
    const cube = n - 16;
    const level = (value: number) => value * 51;
    return [nearest(level(Math.floor(cube / 36)), level(Math.floor(cube / 6) % 6), level(cube % 6)), 2];
  }
  if (codes[0] === 2) return [nearest(codes[1] ?? 0, codes[2] ?? 0, codes[3] ?? 0), 4];
  return [null, 1];
}

function nearest(red: number, green: number, blue: number): number {
  const most = Math.max(red, green, blue);
  const least = Math.min(red, green, blue);
  if (most - least < 32) return most > 160 ? 7 : most > 64 ? 8 : 0;
  const middle = (most + least) / 2;
  const bits = (red > middle ? 1 : 0) | (green > middle ? 2 : 0) | (blue > middle ? 4 : 0);
  return most > 200 ? bits + 8 : bits;
}
