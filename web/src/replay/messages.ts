// Messages between the page and the frame of the player. Both sides read messages with the functions below, because
// neither trusts the other: the frame parses what a terminal has printed.
//
// The frame posts `ready` to its parent. The parent answers once with `load` and a port; everything else goes over the port.

/** Pauses of a recording are shortened to this time, in milliseconds. */
export const IDLE_MS = 2000;
/** Maximum length of a text from the frame, in characters. */
const LONGEST_TEXT = 300;

export type FromFrame =
  | { type: "shown" }
  /** Position in the recording, with its pauses. */
  | { type: "time"; ms: number; isPlaying: boolean }
  | { type: "error"; text: string }
  /** Escape was pressed in the frame. */
  | { type: "close" };

export type ToFrame = { type: "seek"; ms: number } | { type: "play" } | { type: "pause" };

export interface Load {
  type: "load";
  /** The recording as asciicast version 3. */
  cast: ArrayBuffer;
  /** Where the player starts, in the time of the recording; at the first command if absent. */
  startMs?: number;
  idleMs: number;
}

type Unread = Record<string, unknown>;
const fields = (data: unknown): Unread => (typeof data === "object" && data !== null ? (data as Unread) : {});
const isTime = (value: unknown): value is number => typeof value === "number" && Number.isFinite(value) && value >= 0;

export const isReady = (data: unknown) => fields(data).type === "ready";

export function readFromFrame(data: unknown): FromFrame | null {
  const { type, ms, isPlaying, text } = fields(data);
  if (type === "shown" || type === "close") return { type };
  if (type === "time" && isTime(ms)) return { type, ms, isPlaying: isPlaying === true };
  if (type === "error" && typeof text === "string") return { type, text: text.slice(0, LONGEST_TEXT) };
  return null;
}

export function readToFrame(data: unknown): ToFrame | null {
  const { type, ms } = fields(data);
  if (type === "play" || type === "pause") return { type };
  if (type === "seek" && isTime(ms)) return { type, ms };
  return null;
}

export function readLoad(data: unknown): Load | null {
  const { type, cast, startMs, idleMs } = fields(data);
  if (type !== "load" || !(cast instanceof ArrayBuffer) || !isTime(idleMs)) return null;
  return { type, cast, startMs: isTime(startMs) ? startMs : undefined, idleMs };
}
