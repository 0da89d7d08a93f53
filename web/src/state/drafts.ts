// Prompts that are typed and not sent, kept in the tab's session storage.

import { type Signal, signal } from "@preact/signals";

const key = (session: string) => `aish.draft.${session}`;
/** Where the prompt is that is being sent: a page that is loaded meanwhile does not know whether the server has it. */
const sentKey = (session: string) => `aish.sent.${session}`;

function read(key: string): string {
  try {
    return sessionStorage.getItem(key) ?? "";
  } catch {
    return "";
  }
}

/** Whether the page is being left: what fails by that is not known to have failed. */
let isLeaving = false;
addEventListener("pagehide", () => {
  isLeaving = true;
});
addEventListener("pageshow", () => {
  isLeaving = false;
});

function store(key: string, text: string) {
  if (isLeaving) return;
  try {
    if (text) sessionStorage.setItem(key, text);
    else sessionStorage.removeItem(key);
  } catch {
    // Without storage the text is lost only with the page.
  }
}

export const readDraft = (session: string) => joined(read(sentKey(session)), read(key(session)));

export interface Problem {
  message: string;
  hint?: string;
}

/** Text in the field of a session, the prompt that is being sent, and why the last one was not. */
export interface Draft {
  words: string;
  sent: string;
  problem?: Problem;
}

/** Message about a prompt that was being sent when the page was left. */
const LEFT: Problem = { message: "the page was left while this prompt was being sent", hint: "check whether the session contains it before you send it again" };

const drafts = new Map<string, Signal<Draft>>();

/** The draft of a session, which stays while another session is shown. */
export function draftOf(session: string): Signal<Draft> {
  const known = drafts.get(session);
  if (known) return known;
  const draft = signal<Draft>({ words: readDraft(session), sent: "", problem: read(sentKey(session)) ? LEFT : undefined });
  drafts.set(session, draft);
  return draft;
}

/** Changes a draft, and its stored copy. */
export function changeDraft(session: string, change: Partial<Draft>) {
  const draft = draftOf(session);
  draft.value = { ...draft.value, ...change };
  store(key(session), draft.value.words);
  store(sentKey(session), draft.value.sent);
}

/** A prompt that was not sent, with what was typed since. */
export const joined = (sent: string, typed: string) => [sent, typed].filter(Boolean).join("\n");
