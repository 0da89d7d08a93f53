// The list of sessions, and the search in it.

import { computed, signal } from "@preact/signals";
import { ApiProblem, describe, get, sessionPath, write } from "../api/client";
import { EventStream } from "../api/stream";
import type { SessionDetail, SessionList, SessionView } from "../api/types";
import { access } from "./auth";
import { changeDraft, readDraft } from "./drafts";
import { go, sessionAddress } from "./route";
import { showNote } from "./announce";

const PAGE = 30;
/** Sessions that are shown at most; the search finds the others. */
const LIMIT = 90;
/** Sessions that a filter looks at: as many as one request can have. */
const MOST = 200;
const SEARCH_DELAY_MS = 200;
const REFRESH_DELAY_MS = 500;
const POLL_MS = 20_000;

export const sessions = signal<SessionView[]>([]);
export const search = signal("");
/** Filter of the list: a state, shared sessions, or nothing. */
export const listFilter = signal<"" | "shared" | "waiting" | "running">("");
export const shownSessions = computed(() => {
  const wanted = listFilter.value;
  const fits = ({ status, share_state }: SessionView) => wanted === "" || wanted === status || wanted === share_state;
  return sessions.value.filter(fits).slice(0, LIMIT);
});
export const hasMore = signal(false);
export const isListLoaded = signal(false);
export const listProblem = signal<{ message: string; hint?: string } | null>(null);
let shown = PAGE;
let request = 0;
let timer = 0;

/** The outcome of the last request for the list. */
let latest: Promise<boolean>;

/** Reads the list. Returns whether it is that of the words of the search, and not an older one that could not be replaced. */
export function refreshSessions(): Promise<boolean> {
  latest = readSessions();
  return latest;
}

async function readSessions(): Promise<boolean> {
  if (access.value !== "ready") return false;
  const current = ++request;
  const words = search.value.trim();
  const query = words ? `&search=${encodeURIComponent(words)}` : "";
  try {
    const list = await get<SessionList>(`/v1/sessions?limit=${listFilter.value ? MOST : shown}${query}`);
    // An answer to older words must not replace one to newer words.
    if (current !== request) return words === search.value.trim() && latest;
    sessions.value = list.sessions;
    hasMore.value = !listFilter.value && list.next_offset !== undefined && shown < LIMIT;
    isListLoaded.value = true;
    listProblem.value = null;
    return true;
  } catch (error) {
    if (current === request) listProblem.value = describe(error);
    return false;
  }
}

function refreshIn(ms: number) {
  clearTimeout(timer);
  timer = window.setTimeout(refreshSessions, ms);
}

export const refreshSoon = () => refreshIn(REFRESH_DELAY_MS);

export function setSearch(words: string) {
  search.value = words;
  shown = PAGE;
  refreshIn(SEARCH_DELAY_MS);
}

/** Shows the first session that fits the words of the search, unless the list could not be read or other words were typed since. */
export async function openFirst() {
  if (!search.value.trim()) return;
  clearTimeout(timer);
  if (!(await refreshSessions())) return;
  const first = shownSessions.value[0];
  if (first) go(sessionAddress(first.id, first.excerpt_record_id));
}

export function setFilter(filter: typeof listFilter.value) {
  listFilter.value = filter;
  void refreshSessions();
}

export function showMore() {
  shown = Math.min(shown + PAGE, LIMIT);
  void refreshSessions();
}

/** Reads the list again when the page gets the focus, and periodically while it is visible. */
export function watchSessions() {
  const visible = () => document.visibilityState === "visible";
  window.addEventListener("focus", refreshSoon);
  document.addEventListener("visibilitychange", () => visible() && refreshSoon());
  setInterval(() => visible() && void refreshSessions(), POLL_MS);
}

/** Follows the changes of all sessions. For views without a session: each page has one stream. */
export function followSessions(): () => void {
  const stream = new EventStream("/v1/events", null, {
    event: (event) => {
      // The list shows no text of answers.
      const changesNothing = event.type.endsWith(".delta") || ["x.heartbeat", "x.caught_up"].includes(event.type);
      if (!changesNothing) refreshSoon();
    },
    connection: (state) => state === "live" && listProblem.value && refreshSoon(),
    lost: refreshSoon,
  });
  return () => stream.close();
}

/** The directory of the session that was shown last: a new one works there too. */
let directory: string | undefined;

export function rememberDirectory(cwd: string | undefined) {
  directory = cwd ?? directory;
}

/** Whether a session is being made. */
export const isCreating = signal(false);
/** Characters typed since a new session was asked for: its first prompt. */
let typedAhead = "";
/** When keys get their own meaning again, though the session is not there yet. */
let typingUntil = 0;
/** Time for which keys go to the session that is being made, in milliseconds. */
const TYPING_MS = 2000;
/** Those of a session that could not be made: for the next one. */
let unused = "";
let created: string | null = null;
/** The session that was made last, its directory, and the number of its records then. */
let last: { id: string; directory: string | undefined; records: number } | null = null;

/** Returns the session that was made last, if nothing was asked, typed or set in it: another one would be the same. */
async function unusedSession(): Promise<string | null> {
  if (!last || last.directory !== directory || readDraft(last.id)) return null;
  const detail = await get<SessionDetail>(sessionPath(last.id)).catch(() => null);
  return detail?.records === last.records && detail.status === "idle" ? last.id : null;
}

/** Whether this page has just made the session: once, for its prompt to take the focus. */
export function isJustCreated(id: string): boolean {
  if (created !== id) return false;
  created = null;
  return true;
}

/** Takes a key for the prompt of the session that is being made. */
export function typeAhead(key: string): boolean {
  if (!isCreating.peek() || performance.now() > typingUntil) return false;
  if (key === "Backspace") typedAhead = typedAhead.slice(0, -1);
  else if (key.length === 1) typedAhead += key;
  else return false;
  return true;
}

/** Gives the keys their own meaning again. */
export function endTypeAhead() {
  typingUntil = 0;
}

/** Makes a session and shows it; one at a time. */
export async function createSession() {
  if (isCreating.peek()) return;
  isCreating.value = true;
  typedAhead = unused;
  typingUntil = performance.now() + TYPING_MS;
  const create = (cwd?: string) => write<SessionDetail>("POST", "/v1/sessions", { cwd });
  try {
    // It may be gone since.
    const isGone = (error: unknown) => directory !== undefined && error instanceof ApiProblem && error.status === 409;
    const made = async () => {
      const session = await create(directory).catch((error) => {
        if (isGone(error)) return create();
        throw error;
      });
      last = session ? { id: session.id, directory, records: session.records } : null;
      return session?.id;
    };
    const id = (await unusedSession()) ?? (await made());
    if (id) {
      created = id;
      changeDraft(id, { words: typedAhead });
      unused = "";
      go(sessionAddress(id));
    }
    refreshSoon();
  } catch (error) {
    unused = typedAhead;
    const { message, hint } = describe(error);
    showNote(`No new session: ${message}${hint ? `; ${hint}` : ""}`, true);
  } finally {
    isCreating.value = false;
  }
}
