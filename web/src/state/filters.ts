// Filters of the log of a session.

import { signal } from "@preact/signals";
import { get, sessionPath } from "../api/client";
import type { MessagePage } from "../api/types";
import { type Item, fromMessage, isContinued, linkResults, optionalNumber, showsRecord, text } from "./items";

/** Messages per read, and matches after which no more are read. */
const PAGE = 200;
const ENOUGH = 30;
/** Messages that are read at once of what is newer, and matches that are shown at most. */
const NEW_PAGE = 40;
const MOST = 100;

const CALL_ERRORS = ["tool_error", "call_failed", "invalid_call", "blocked"];
const ANSWER_ERRORS = ["error", "cut_off", "length", "content_filter"];

export const FILTERS: Record<string, { label: string; fits: (item: Item) => boolean }> = {
  prompts: { label: "Prompts", fits: ({ kind, text }) => (kind === "user" && !isContinued(kind, text)) || kind === "waiting" },
  answers: { label: "Answers", fits: (item) => item.kind === "assistant" && item.text.trim() !== "" },
  calls: { label: "Tool calls", fits: (item) => item.kind === "tool" || item.calls.length > 0 },
  commands: { label: "Commands", fits: (item) => item.kind === "command" },
  errors: { label: "Errors", fits: isError },
};

function isError({ kind, detail, calls }: Item): boolean {
  if (kind === "command") return !!optionalNumber(detail.exit);
  const words = kind === "tool" ? CALL_ERRORS : ANSWER_ERRORS;
  return words.includes(text(kind === "tool" ? detail.status : detail.finish)) || calls.some(({ result }) => CALL_ERRORS.includes(result?.status ?? ""));
}

/** The name of the filter that the shown session has, or nothing. */
export const logFilter = signal("");

export interface Matches {
  items: Item[];
  /** Where earlier ones begin, if there may be any. */
  before?: number;
  /** Number of the last message that was read. */
  last: number;
}

/** Reads the last messages that fit, of those before a number. With `known`, reads only what is newer, and adds it to that. */
export async function readMatches(id: string, filter: string, signal: AbortSignal, before?: number, known?: Matches): Promise<Matches> {
  const all: Item[] = [];
  let items: Item[] = [];
  let next = before;
  do {
    const query: string = next === undefined ? "" : `&before=${next}`;
    const page: MessagePage = await get<MessagePage>(sessionPath(id, `/messages?limit=${known ? NEW_PAGE : PAGE}${query}`), signal);
    all.unshift(...page.messages.map(fromMessage).reverse());
    items = linkResults(all).filter((item) => FILTERS[filter]?.fits(item));
    next = page.next_before;
  } while (next !== undefined && (known ? (all[0]?.number ?? 0) > known.last : items.length < ENOUGH));
  const last = Math.max(known?.last ?? -1, all.at(-1)?.number ?? -1);
  if (known) {
    const first = all[0]?.number ?? 0;
    const hasBegun = ({ kind, messageId }: Item) => kind === "waiting" && all.some((item) => item.messageId === messageId);
    const kept = known.items.filter((item) => (item.number ?? 0) < first && !hasBegun(item));
    // The result of a call that is kept.
    const isKept = ({ recordId }: Item) => kept.some((item) => showsRecord(item, recordId ?? ""));
    const shown = [...kept, ...items.filter((item) => !isKept(item))];
    const part = shown.slice(-MOST);
    return { items: part, before: part.length < shown.length ? part[0]?.number : known.before, last };
  }
  const shown = items.slice(-ENOUGH);
  return { items: shown, before: shown.length < items.length ? shown[0]?.number : next, last };
}
