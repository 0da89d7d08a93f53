// Applies the events of a session to its window.

import type { Signal } from "@preact/signals";
import type { EventEnvelope, Fields, ProposalView, Question, StatusPayload } from "../api/types";
import { byteLength } from "../text/format";
import { announce } from "./announce";
import { FINISH_WORDS, type Item, WAITING, emptyItem, findCall, newCall, optionalNumber, text, toolResult, withCall } from "./items";
import { pairing } from "./pairing";
import { refreshSoon } from "./sessions";

/** Output of a running call that is kept, in characters. */
const MAX_OUTPUT = 64 * 1024;

/** What events change of a session. */
export interface LiveSession {
  /** The running answer, or the prompt whose events are arriving. */
  live: Item | null;
  readonly status: Signal<StatusPayload>;
  readonly hasNewer: Signal<boolean>;
  readonly isDeleted: Signal<boolean>;
  /** Whether a message is in the window and complete. */
  has(messageId: string): boolean;
  hasRecord(recordId: string): boolean;
  /** Drops a prompt that waited: its message has begun. */
  dropWaiting(messageId: string): void;
  /** Adds a complete entry at the end. */
  add(item: Item): void;
  /** Changes entries of the window and the running answer. */
  update(change: (items: Item[]) => void): void;
  /** Reads a message again: its events were not all of it. */
  reload(recordId: string): Promise<void>;
  /** Reads the title, the settings and the usage again. */
  refreshDetail(): void;
  /** Plans one update of the view. */
  plan(): void;
}

export function applyEvent(model: LiveSession, event: EventEnvelope) {
  const payload = event.payload ?? {};
  const time = Date.parse(event.ts) || Date.now();
  switch (event.type) {
    case "message.start":
      return startMessage(model, payload, time);
    case "message.delta":
      return addText(model, payload);
    case "message.end":
      return endMessage(model, payload, time);
    case "tool.start":
      return startCall(model, payload);
    case "x.tool.running":
      return runCall(model, payload);
    case "tool.delta":
      return addOutput(model, payload);
    case "tool.end":
      return endCall(model, payload, time);
    case "agent.status":
      return setStatus(model, payload as unknown as StatusPayload);
    case "x.question.open":
      return openQuestion(model, payload as unknown as Question);
    case "x.question.close":
      return closeQuestion(model, payload);
    case "x.notice":
      return addNotice(model, text(payload.text), time, `notice-${event.seq}`);
    case "log.append":
      return addRecord(model, payload.record as Fields, time);
    case "x.session.title":
    case "x.session.setting":
      return model.refreshDetail();
    case "x.session.deleted":
      model.isDeleted.value = true;
      refreshSoon();
      return;
  }
}

function startMessage(model: LiveSession, payload: Fields, time: number) {
  const id = text(payload.message_id);
  model.dropWaiting(id);
  if (model.has(id)) return;
  const kind = payload.role === "user" ? "user" : "assistant";
  model.live = { ...emptyItem(kind, id), timestampMs: time, detail: payload };
  model.plan();
}

function addText(model: LiveSession, payload: Fields) {
  const { live } = model;
  if (live?.messageId !== payload.message_id || !live) return;
  const omitted = live.omitted + (optionalNumber(payload.omitted) ?? 0);
  model.live = { ...live, text: live.text + text(payload.text), omitted };
  model.plan();
}

function endMessage(model: LiveSession, payload: Fields, time: number) {
  const { live } = model;
  if (payload.finish === "discarded") {
    model.live = null;
    return model.plan();
  }
  if (!live || live.messageId !== payload.message_id) return;
  const recordId = text(payload.record_id);
  const detail = { ...live.detail, ...payload };
  const proposals = (payload.proposals ?? []) as ProposalView[];
  const isSummary = payload.is_summary === true;
  const item: Item = { ...live, recordId, proposals, isSummary, detail, timestampMs: time, isLive: false };
  model.live = null;
  model.add(item);
  const length = optionalNumber(payload.length);
  const isOther = item.omitted > 0 || (length !== undefined && length !== byteLength(item.text));
  if (isOther || payload.proposals === null || item.calls.some(({ isCut }) => isCut)) void model.reload(recordId);
  model.refreshDetail();
  if (item.kind !== "assistant") return;
  const finish = FINISH_WORDS[text(payload.finish)];
  if (finish || item.text.trim()) announce(`${finish ?? "Answer:"} ${item.text}`);
}

function startCall(model: LiveSession, payload: Fields) {
  const isCut = !!optionalNumber(payload.omitted);
  const call = { ...newCall(text(payload.call_id), text(payload.name), text(payload.arguments)), isCut };
  model.update((items) => {
    const i = items.findLastIndex((item) => item.messageId === payload.message_id);
    const item = items[i];
    if (!item?.isLive) return;
    if (item.calls.some((known) => known.id === call.id)) return;
    items[i] = { ...item, calls: [...item.calls, call] };
  });
}

function runCall(model: LiveSession, payload: Fields) {
  model.update((items) => {
    const place = findCall(items, items.length, text(payload.call_id));
    const item = place && items[place[0]];
    if (place && item) items[place[0]] = withCall(item, place[1], { isRunning: true });
  });
}

function addOutput(model: LiveSession, payload: Fields) {
  model.update((items) => {
    const place = findCall(items, items.length, text(payload.call_id));
    const item = place && items[place[0]];
    if (!place || !item) return;
    const output = ((item.calls[place[1]]?.output ?? "") + text(payload.text)).slice(-MAX_OUTPUT);
    items[place[0]] = withCall(item, place[1], { output });
  });
}

function endCall(model: LiveSession, payload: Fields, time: number) {
  const recordId = text(payload.record_id);
  if (model.hasRecord(recordId)) return;
  const id = text(payload.call_id);
  const omitted = optionalNumber(payload.omitted) ?? 0;
  let isPlaced = false;
  model.update((items) => {
    const place = findCall(items, items.length, id);
    const item = place && items[place[0]];
    if (!place || !item) return;
    isPlaced = true;
    const result = toolResult(payload, recordId, text(payload.text), omitted);
    items[place[0]] = withCall(item, place[1], { result, isRunning: false });
  });
  if (isPlaced || model.hasNewer.value) return;
  const item = { ...emptyItem("tool", id), key: recordId, recordId, detail: payload, timestampMs: time };
  model.add({ ...item, text: text(payload.text), omitted, isLive: false });
}

function setStatus(model: LiveSession, status: StatusPayload) {
  const before = model.status.value;
  showStatus(model, { ...status, questions: status.questions ?? [] });
  if (before.status !== status.status) refreshSoon();
  if (status.failure && before.status !== "idle") announce(`The prompt failed: ${status.failure.message}`);
}

/** Shows a status, and announces the questions that are new in it: they come with it or by themselves. */
function showStatus(model: LiveSession, status: StatusPayload) {
  const known = model.status.value.questions;
  model.status.value = status;
  const isNew = (question: Question) => !known.some(({ question_id }) => question_id === question.question_id);
  if (status.questions.some(isNew)) announce(`A question is open.${pairing.value ? "" : " Answer it in the terminal."}`);
}

function openQuestion(model: LiveSession, question: Question) {
  const { questions } = model.status.value;
  if (questions.some((known) => known.question_id === question.question_id)) return;
  showStatus(model, { ...model.status.value, status: "waiting", questions: [...questions, question] });
}

function closeQuestion(model: LiveSession, payload: Fields) {
  const id = text(payload.question_id);
  const questions = model.status.value.questions.filter((question) => question.question_id !== id);
  model.status.value = { ...model.status.value, questions };
  const place = text(payload.answered_in);
  if (place) announce(`The question was answered in ${place}: ${text(payload.outcome).replaceAll("_", " ")}.`);
}

function addNotice(model: LiveSession, words: string, time: number, key: string) {
  if (!words.trim()) return;
  model.add({ ...emptyItem("notice", key), text: words, timestampMs: time, isLive: false });
}

function addRecord(model: LiveSession, record: Fields | undefined, time: number) {
  const id = text(record?.id);
  if (!record || model.hasRecord(id)) return;
  if (record.type === "command_approval" || record.type === "command_result") {
    const item = { ...emptyItem("command", id), recordId: id, detail: record, timestampMs: time };
    model.add({ ...item, isLive: false });
  } else if (record.type === WAITING) {
    const words = text(record.prompt);
    const item = { ...emptyItem("waiting", text((record.ids as Fields).prompt)), recordId: id, text: words, timestampMs: time };
    model.add({ ...item, isLive: false });
    // The event has only the beginning of a long text.
    if (words.endsWith("…")) void model.reload(id);
  } else if (record.type === "compaction") {
    addNotice(model, "The older part of the session is summarized.", time, id);
  }
}
