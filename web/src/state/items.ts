// Items of the log of a session: messages, with the results of tool calls put to the calls.

import type { ChainEntry, Fields, MessageView, ProposalView, RecordView, Role } from "../api/types";
import { duration } from "../text/format";

export interface ToolResult {
  recordId: string;
  number?: number;
  status: string;
  text: string;
  omitted: number;
  durationMs?: number;
  decidedBy?: string;
  reason?: string;
  error?: string;
}

export interface Call {
  id: string;
  name: string;
  arguments: string;
  /** Whether the event had only the beginning of the arguments. */
  isCut?: boolean;
  /** Output of a call that runs. */
  output: string;
  isRunning: boolean;
  result?: ToolResult;
}

/** An entry of the log. Never changed: a change makes a new object, so that only its element is made again. */
export interface Item {
  key: string;
  /** `waiting` is a prompt that was accepted and whose turn has not begun. */
  kind: Role | "notice" | "waiting";
  /** Id of the message: of the prompt, the round or the tool call. */
  messageId: string;
  recordId?: string;
  number?: number;
  timestampMs: number;
  text: string;
  omitted: number;
  calls: Call[];
  proposals: ProposalView[];
  /** Whether it is an answer that summarizes the older part of the session. */
  isSummary?: boolean;
  detail: Fields;
  isLive: boolean;
}

export const text = (value: unknown) => (typeof value === "string" ? value : "");
export const optionalText = (value: unknown) => (typeof value === "string" && value ? value : undefined);
export const optionalNumber = (value: unknown) => (typeof value === "number" ? value : undefined);

export function emptyItem(kind: Item["kind"], messageId: string): Item {
  return {
    key: messageId, kind, messageId, timestampMs: Date.now(), text: "", omitted: 0, calls: [], proposals: [], detail: {},
    isLive: true,
  };
}

/** The text of a prompt that nobody typed: an approved command has ended, and its output goes to the model. As in src/chat.rs. */
const CONTINUED = "The command has ended; go on.";
/** What is shown instead. */
export const CONTINUED_SHOWN = "Continued with the output";

export const isContinued = (role: string, content: string) => role === "user" && content === CONTINUED;

/** Type of the record of a prompt that was accepted before its turn had recorded it. */
export const WAITING = "waiting_prompt";

/** How an answer has ended, unless it is complete. */
export const FINISH_WORDS: Record<string, string> = {
  length: "The answer reached the length limit.",
  content_filter: "The provider's content filter ended the answer.",
  interrupted: "The answer was cancelled.",
  error: "The answer failed.",
  cut_off: "The answer was cut off: the daemon ended.",
};

/** What became of a tool call. */
export const STATUS_WORDS: Record<string, string> = {
  success: "done",
  tool_error: "the tool reported an error",
  call_failed: "failed",
  denied: "denied",
  blocked: "blocked",
  invalid_call: "invalid call",
  interrupted: "cancelled",
};

/** Outcome of a proposed command. */
export const CHOICE_WORDS: Record<string, string> = {
  run: "Approved and run in the terminal",
  insert: "Put on the command line",
  no: "Not run",
  quit: "Not run; the rest was skipped",
  denied: "Denied by a rule",
};

/** What was done with a command, or how it has ended. */
export function commandWords(detail: Fields): string {
  const choice = optionalText(detail.choice);
  if (choice) return CHOICE_WORDS[choice] ?? choice;
  const ms = optionalNumber(detail.duration_ms);
  return `Ended with exit code ${optionalNumber(detail.exit) ?? "unknown"}${ms === undefined ? "" : ` after ${duration(ms)}`}`;
}

/** Stored part of the output of a command. */
export type CommandOutput = { head?: string; tail?: string; omitted?: number } | null | undefined;

/** The kind of the entry that shows a message. */
export const kindOf = ({ role, detail }: MessageView): Item["kind"] => (detail?.type === WAITING ? "waiting" : role);

export function fromMessage(message: MessageView): Item {
  return {
    key: message.role === "tool" || message.role === "command" ? message.record_id : message.id,
    kind: kindOf(message),
    messageId: message.id,
    recordId: message.record_id,
    number: message.number,
    timestampMs: message.timestamp_ms,
    text: message.content,
    omitted: message.omitted,
    calls: (message.tool_calls ?? []).map((call) => newCall(call.id, call.name, call.arguments)),
    proposals: message.proposals ?? [],
    isSummary: message.is_summary,
    detail: message.detail ?? {},
    isLive: false,
  };
}

export function newCall(id: string, name: string, args: string): Call {
  return { id, name, arguments: args, output: "", isRunning: false };
}

/** Reads the fields of a tool result, which a record and the event `tool.end` name alike. */
export function toolResult(fields: Fields, recordId: string, shown: string, omitted: number): ToolResult {
  return {
    recordId,
    status: text(fields.status) || "unknown",
    text: shown,
    omitted,
    durationMs: optionalNumber(fields.duration_ms),
    decidedBy: optionalText(fields.decided_by),
    reason: optionalText(fields.reason),
    error: optionalText(fields.error),
  };
}

function resultOf(item: Item): ToolResult {
  return { ...toolResult(item.detail, item.recordId ?? "", item.text, item.omitted), number: item.number };
}

/** Index of the last call with this id that has no result, among the answers before `end`. */
export function findCall(items: Item[], end: number, id: string): [number, number] | null {
  for (let i = end - 1; i >= 0; i--) {
    const item = items[i];
    if (!item || item.kind === "user") return null;
    if (item.kind !== "assistant") continue;
    const call = item.calls.findIndex((known) => known.id === id && !known.result);
    if (call >= 0) return [i, call];
  }
  return null;
}

export function withCall(item: Item, index: number, change: Partial<Call>): Item {
  return { ...item, calls: item.calls.map((call, i) => (i === index ? { ...call, ...change } : call)) };
}

/** Puts the results of tool calls to their calls. A result whose answer is not in the list stays an entry. */
export function linkResults(items: Item[]): Item[] {
  const linked: Item[] = [];
  for (const item of items) {
    const place = item.kind === "tool" ? findCall(linked, linked.length, item.messageId) : null;
    const owner = place && linked[place[0]];
    if (place && owner) linked[place[0]] = withCall(owner, place[1], { result: resultOf(item), isRunning: false });
    else linked.push(item);
  }
  return linked;
}

/** Puts prompts that were not answered behind the turn during which they were accepted: otherwise its answer seems to be one to them. */
export function afterTurns<T>(entries: T[], kindOf: (entry: T) => Item["kind"]): T[] {
  const ordered: T[] = [];
  let turn: T[] = [];
  const end = () => {
    const answered = turn.findLastIndex((entry) => kindOf(entry) === "assistant" || kindOf(entry) === "tool") + 1;
    const isWaiting = (entry: T) => kindOf(entry) === "waiting";
    const before = turn.slice(0, answered);
    ordered.push(...before.filter((entry) => !isWaiting(entry)), ...before.filter(isWaiting), ...turn.slice(answered));
    turn = [];
  };
  for (const entry of entries) {
    if (kindOf(entry) === "user") end();
    turn.push(entry);
  }
  end();
  return ordered;
}

/** Keys of the prompts without an answer: another prompt follows, or nothing in a session where nothing happens. */
export function unanswered(items: Item[], isOver: boolean): string[] {
  const keys: string[] = [];
  let last: string | null = null;
  for (const { kind, key } of items) {
    if (kind === "user") {
      if (last) keys.push(last);
      last = key;
    } else if (kind === "assistant" || kind === "tool") last = null;
  }
  if (last && isOver) keys.push(last);
  return keys;
}

/** The greatest number of a record that the entry shows. */
export function lastNumber(item: Item): number {
  const numbers = item.calls.map((call) => call.result?.number ?? -1);
  return Math.max(item.number ?? -1, ...numbers);
}

/** A place in the log: an entry, and the index of a call in it, or -1 for the entry itself. */
export interface Place {
  key: string;
  call: number;
}

/** The answer that shows a record that is not a message: a decision on a call, or the beginning of a summary. */
export function askingAnswer({ record, number, chain }: RecordView): ChainEntry | undefined {
  if (record.type === "compaction") return chain.find((entry) => entry.type === "assistant" && entry.number > number);
  if (record.type !== "approval") return undefined;
  return chain.findLast((entry) => entry.type === "assistant" && entry.number < number);
}

/** Where the log shows a record: as an entry, as the result of a call, as the call that it decides on, or as the summary that it begins. */
export function findPlace(items: Item[], view: RecordView): Place | null {
  const answer = askingAnswer(view);
  for (const { key, recordId, calls } of items) {
    if (answer && recordId === answer.record_id) return { key, call: calls.findIndex((call) => call.id === view.record.call) };
    const call = calls.findIndex(({ result }) => result?.recordId === view.record.id);
    if (call >= 0 || recordId === view.record.id) return { key, call };
  }
  return null;
}

export const showsRecord = (item: Item, record: string) =>
  item.recordId === record || item.calls.some((call) => call.result?.recordId === record);
