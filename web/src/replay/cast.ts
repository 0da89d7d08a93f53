// Reads asciicast version 3, and shortens its pauses in a way that can be reverted.

/** Largest terminal that is drawn. */
const MAX_COLS = 1000;
const MAX_ROWS = 500;
/** Controls of the direction of text have no width in a terminal, but would reorder the line in the browser. */
const BIDI = /[\u200e\u200f\u061c\u202a-\u202e\u2066-\u2069]/g;

/** Output, change of size or marker, with its time in milliseconds. */
export type CastEvent = [ms: number, code: "o" | "r" | "m", data: string];

export interface Cast {
  cols: number;
  rows: number;
  /** Largest size in the recording. */
  maxCols: number;
  maxRows: number;
  /** Events in the time of the player. */
  events: CastEvent[];
  /** Times of the markers in the player. */
  markers: number[];
  /** Length in the time of the recording. */
  durationMs: number;
  timeline: Timeline;
}

interface Cut {
  /** The pause, in the time of the recording. */
  from: number;
  to: number;
  /** Time that is left out before and after the pause. */
  before: number;
  after: number;
}

/** The times of a recording, and those of the player, in which pauses are shorter. */
export class Timeline {
  private cuts: Cut[] = [];
  private last = 0;
  private shift = 0;

  constructor(private readonly idleMs: number) {}

  /** Adds the next event; returns its time in the player. */
  add(ms: number): number {
    const excess = ms - this.last - this.idleMs;
    if (excess > 0) {
      this.cuts.push({ from: this.last, to: ms, before: this.shift, after: this.shift + excess });
      this.shift += excess;
    }
    this.last = ms;
    return ms - this.shift;
  }

  toPlayer(ms: number): number {
    const cut = this.cuts.findLast(({ from }) => from <= ms);
    if (!cut) return ms;
    if (ms >= cut.to) return ms - cut.after;
    return cut.from - cut.before + Math.min(ms - cut.from, this.idleMs);
  }

  toRecording(ms: number): number {
    const cut = this.cuts.findLast(({ from, before }) => from - before <= ms);
    if (!cut) return ms;
    return ms >= cut.to - cut.after ? ms + cut.after : ms + cut.before;
  }
}

/** Reads a recording. Throws an error in words if it cannot be shown; skips lines that are not events. */
export function readCast(text: string, idleMs: number): Cast {
  const end = text.indexOf("\n");
  const header = readJson(end < 0 ? text : text.slice(0, end)) as { version?: unknown; term?: { cols?: unknown; rows?: unknown } } | null;
  if (header?.version !== 3) throw new Error("it is not an asciicast of version 3");
  const size = readSize(`${header.term?.cols}x${header.term?.rows}`);
  if (!size) throw new Error("its size is missing or too large");
  const timeline = new Timeline(idleMs);
  const events: CastEvent[] = [];
  const markers: number[] = [];
  let [maxCols, maxRows] = size;
  let ms = 0;
  for (let start = end + 1; start > 0 && start < text.length; ) {
    const stop = text.indexOf("\n", start);
    const line = text.slice(start, stop < 0 ? text.length : stop);
    start = stop + 1;
    const event = line.startsWith("[") ? readJson(line) : null;
    if (!Array.isArray(event)) continue;
    const [seconds, code, data] = event as unknown[];
    if (typeof seconds !== "number" || !Number.isFinite(seconds) || typeof data !== "string") continue;
    ms += Math.max(0, seconds * 1000);
    if (code === "m") markers.push(add(ms, code, data));
    else if (code === "o") add(ms, code, data.replace(BIDI, ""));
    else if (code === "r") {
      const next = readSize(data);
      if (!next) continue;
      add(ms, code, data);
      maxCols = Math.max(maxCols, next[0]);
      maxRows = Math.max(maxRows, next[1]);
    }
  }
  function add(at: number, code: CastEvent[1], data: string): number {
    const shown = timeline.add(at);
    events.push([shown, code, data]);
    return shown;
  }
  if (events.length === 0) throw new Error("it is empty");
  return { cols: size[0], rows: size[1], maxCols, maxRows, events, markers, durationMs: ms, timeline };
}

function readJson(line: string): unknown {
  try {
    return JSON.parse(line);
  } catch {
    return null;
  }
}

/** Reads a size such as `80x24`. */
export function readSize(text: string): [number, number] | null {
  const match = /^(\d{1,4})x(\d{1,4})$/.exec(text);
  const [cols, rows] = [Number(match?.[1]), Number(match?.[2])];
  return cols >= 1 && rows >= 1 && cols <= MAX_COLS && rows <= MAX_ROWS ? [cols, rows] : null;
}
