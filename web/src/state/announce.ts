// What screen readers are told, and short notes at the edge of the page.

import { signal } from "@preact/signals";

/** What is told, with a number: the same text a second time is told too. */
export const announcement = signal({ id: 0, text: "" });
export const note = signal<{ text: string; isError: boolean } | null>(null);

/** Length of an announced answer, in characters. */
const LONGEST = 600;
/** Time for which a note stays, in milliseconds. */
const NOTE_MS = 6000;
/** Time within which one announcement does not replace another but is added to it, in milliseconds. */
const TOGETHER_MS = 500;
let noteTimer = 0;
let lastAt = -TOGETHER_MS;

export function announce(text: string) {
  const { id, text: before } = announcement.peek();
  const now = performance.now();
  const shown = text.length > LONGEST ? `${text.slice(0, LONGEST)} …` : text;
  announcement.value = { id: id + 1, text: now - lastAt < TOGETHER_MS ? `${before} ${shown}` : shown };
  lastAt = now;
}

export function showNote(text: string, isError = false) {
  clearTimeout(noteTimer);
  note.value = { text, isError };
  noteTimer = window.setTimeout(() => {
    note.value = null;
  }, NOTE_MS);
}
