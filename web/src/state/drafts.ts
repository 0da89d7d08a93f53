// Prompts that are typed and not sent, kept in the tab's session storage.

import { type Signal, signal } from "@preact/signals";

const key = (session: string) => `aish.draft.${session}`;

export function readDraft(session: string): string {
  try {
    return sessionStorage.getItem(key(session)) ?? "";
  } catch {
    return "";
  }
}

function storeDraft(session: string, text: string) {
  try {
    if (text) sessionStorage.setItem(key(session), text);
    else sessionStorage.removeItem(key(session));
  } catch {
    // Without storage the text is lost only with the page.
  }
}

/** What the field of a session has, and the prompt that is being sent: until the server has it, it belongs to the draft. */
export interface Draft {
  words: string;
  sent: string;
}

const drafts = new Map<string, Signal<Draft>>();

/** The draft of a session, which stays while another session is shown. */
export function draftOf(session: string): Signal<Draft> {
  const draft = drafts.get(session) ?? signal({ words: readDraft(session), sent: "" });
  drafts.set(session, draft);
  return draft;
}

/** Changes a draft, and what is kept of it. */
export function changeDraft(session: string, words: string, sent: string) {
  draftOf(session).value = { words, sent };
  storeDraft(session, joined(sent, words));
}

/** A prompt that was not sent, with what was typed since. */
export const joined = (sent: string, typed: string) => [sent, typed].filter(Boolean).join("\n");
