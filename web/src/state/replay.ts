// The recordings of the session that is shown, and which of them is replayed where.

import { signal } from "@preact/signals";
import { ApiProblem, get, send, sessionPath } from "../api/client";
import type { RecordingList, RecordingView } from "../api/types";
import { bytes } from "../text/format";
import { type Item, optionalNumber } from "./items";

/** Maximum size of a recording that the page loads, in bytes. */
const LARGEST_CAST = 32 * 1024 * 1024;

export const recordings = signal<RecordingView[]>([]);
export const isReplayOpen = signal(false);
/** The recording in the player, and where it starts; a new object for each wish. */
export const replayed = signal<{ recording: RecordingView; ms?: number } | null>(null);

/** Reads the recordings of a session again. */
export async function loadRecordings(session: string, signal?: AbortSignal) {
  const list = await get<RecordingList>(sessionPath(session, "/recordings"), signal);
  if (signal?.aborted) return;
  recordings.value = list.recordings;
  const shown = replayed.peek();
  const [newest] = list.recordings;
  const again = list.recordings.find(({ id }) => id === shown?.recording.id);
  if (shown && again) replayed.value = { ...shown, recording: again };
  // One that is gone stays, and the player says so.
  else if (!shown && newest) replayed.value = { recording: newest };
}

/** Forgets the recordings when the session is left. */
export function leaveRecordings() {
  isReplayOpen.value = false;
  recordings.value = [];
  replayed.value = null;
}

/** Where a prompt or a command is in the recordings: first of all in the one that is replayed. */
export function placeOf(item: Item): { recording: RecordingView; ms: number } | null {
  if (item.kind !== "user" && item.kind !== "command") return null;
  // The record of a command is written at its end.
  const at = item.timestampMs - (item.kind === "command" ? (optionalNumber(item.detail.duration_ms) ?? 0) : 0);
  const shown = replayed.value?.recording;
  for (const recording of shown ? [shown, ...recordings.value] : recordings.value) {
    const ms = at - recording.started_ms;
    if (ms >= 0 && ms <= recording.duration_ms) return { recording, ms };
  }
  return null;
}

/** Loads a recording, unless it is too large. */
export async function loadCast(session: string, recording: string, signal: AbortSignal): Promise<ArrayBuffer> {
  const path = sessionPath(session, `/logs/raw?recording=${encodeURIComponent(recording)}`);
  const response = await send(path, { signal });
  const tooLarge = () =>
    new ApiProblem(0, `The recording has more than ${bytes(LARGEST_CAST)}.`, `In a terminal: aish-helper replay ${recording.slice(0, 8)}`);
  if (Number(response.headers.get("content-length")) > LARGEST_CAST) {
    await response.body?.cancel();
    throw tooLarge();
  }
  const chunks: BlobPart[] = [];
  let size = 0;
  const reader = response.body?.getReader();
  for (;;) {
    const part = await reader?.read();
    if (!part || part.done) return new Blob(chunks).arrayBuffer();
    size += part.value.length;
    if (size > LARGEST_CAST) {
      await reader?.cancel();
      throw tooLarge();
    }
    chunks.push(part.value as BlobPart);
  }
}
