// Announcements for screen readers, and short notes at the edge of the page.

import { signal } from "@preact/signals";

/** Announcements, each with a number: the same text a second time is announced too. */
export const announcements = signal<{ id: number; text: string }[]>([]);
export const note = signal<{ text: string; isError: boolean } | null>(null);

/** Length of an announced answer, in characters. */
const LONGEST = 600;
/** Time for which a note stays, in milliseconds. */
const NOTE_MS = 6000;
/** Time within which an announcement does not replace those before it: they may not have been told yet. */
const TOGETHER_MS = 500;
let noteTimer = 0;
let lastAt = -TOGETHER_MS;

export function announce(text: string) {
  const known = announcements.peek();
  const now = performance.now();
  const shown = text.length > LONGEST ? `${text.slice(0, LONGEST)} …` : text;
  const next = { id: (known.at(-1)?.id ?? 0) + 1, text: shown };
  announcements.value = now - lastAt < TOGETHER_MS ? [...known, next] : [next];
  lastAt = now;
}

export function showNote(text: string, isError = false) {
  clearTimeout(noteTimer);
  note.value = { text, isError };
  noteTimer = window.setTimeout(() => {
    note.value = null;
  }, NOTE_MS);
}
