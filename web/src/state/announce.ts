// What screen readers are told, and short notes at the edge of the page.

import { signal } from "@preact/signals";

export const announcement = signal("");
export const note = signal<{ text: string; isError: boolean } | null>(null);

/** Length of an announced answer, in characters. */
const LONGEST = 600;
/** Time for which a note stays, in milliseconds. */
const NOTE_MS = 6000;
let noteTimer = 0;

export function announce(text: string) {
  announcement.value = text.length > LONGEST ? `${text.slice(0, LONGEST)} …` : text;
}

export function showNote(text: string, isError = false) {
  clearTimeout(noteTimer);
  note.value = { text, isError };
  noteTimer = window.setTimeout(() => {
    note.value = null;
  }, NOTE_MS);
}
