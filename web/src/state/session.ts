// One session: a window of its messages, and what happens in it now.
//
// Only a part of a long session is held and shown. The window is either at the end of the session, where new messages are
// added to it, or further up, where new messages are only counted.

import { signal } from "@preact/signals";
import { describe, get, sessionPath } from "../api/client";
import { EventStream, type Connection } from "../api/stream";
import type { EventEnvelope, MessagePage, OutlineEntry, RecordView, SessionDetail, StatusPayload } from "../api/types";
import { type Item, type Place, askingAnswer, findPlace, fromMessage, lastNumber, linkResults, showsRecord } from "./items";
import { type LiveSession, applyEvent } from "./live";
import type { SessionRoute } from "./route";
import { refreshSoon, rememberDirectory } from "./sessions";

const FIRST_PAGE = 40;
/** Messages that are shown first, at most; the others of the first page follow. */
const FIRST_SHOWN = 12;
/** Height of a line of a message, and of all else that it has, in pixels: less than they are, so that the first messages fill the view. */
const LINE_PX = 20;
const FRAME_PX = 40;
const PAGE = 30;
/** Messages that the window has at most. */
const WINDOW = 100;
/** Time in which several changes cause one request, in milliseconds. */
const REFRESH_MS = 400;

/** How long the page waits for the messages before it draws the rest without them, in milliseconds. */
const PATIENCE_MS = 60;

/** Types of events of which each is about a new record. */
const RECORDS = ["message.end", "tool.end", "log.append"];

/** The status before the first one is told. */
const UNKNOWN: StatusPayload = { status: "idle", questions: [], waiting: [] };

/** Whether a page goes back to a message: one with long texts ends early. */
const reaches = (page: MessagePage, number: number) =>
  page.next_before === undefined || page.messages.some((message) => message.number <= number);

export class SessionModel implements LiveSession {
  readonly detail = signal<SessionDetail | null>(null);
  readonly items = signal<Item[]>([]);
  readonly status = signal<StatusPayload>(UNKNOWN);
  readonly connection = signal<Connection>("connecting");
  readonly hasOlder = signal(false);
  readonly hasNewer = signal(false);
  readonly isLoaded = signal(false);
  /** Counts the changes after which an end of the window that is in view can load more. */
  readonly loads = signal(0);
  /** Counts the events after which the session has another record. */
  readonly recorded = signal(0);
  readonly isDeleted = signal(false);
  readonly problem = signal<{ message: string; hint?: string } | null>(null);
  /** Whether the end of the log is out of view, and not followed. */
  readonly isAway = signal(false);
  /** Messages that came while the user looked elsewhere. */
  readonly unseen = signal(0);
  /** The record that the address names, with its chain. */
  readonly target = signal<RecordView | null>(null);
  /** The entry to scroll to; a new object for each wish. */
  readonly scrollTo = signal<Place | null>(null);

  /** Whether the view is at its end and follows it. */
  isFollowing = true;
  live: Item | null = null;
  private list: Item[] = [];
  private stream: EventStream | null = null;
  private isClosed = false;
  private isPaging = false;
  private isBeginning = false;
  /** The address that was visited last. */
  private address: SessionRoute | null = null;
  private isFlushPlanned = false;
  private detailTimer = 0;

  /** The messages at the end, asked for before anything else of the view: they are its first content. */
  private first: Promise<MessagePage> | null;

  constructor(readonly id: string) {
    this.first = this.lastMessages();
    // `open` says what is wrong.
    this.first.catch(() => {});
  }

  private lastMessages(): Promise<MessagePage> {
    return get<MessagePage>(sessionPath(this.id, `/messages?limit=${FIRST_PAGE}`));
  }

  /** Whether an answer is running, as far as that can be known. */
  isBusy(): boolean {
    return this.status.value.status !== "idle" && this.connection.value !== "no_answer";
  }

  /** Whether the window ends with the last message, and no other is about to come. */
  isOver(): boolean {
    const status = this.status.value;
    return status !== UNKNOWN && status.status === "idle" && !this.hasNewer.value;
  }

  /** Shows the session as an address names it: at its end, or around a record. */
  async visit(address: SessionRoute) {
    // The one that was prepared is visited again by the view.
    if (this.address === address) return;
    this.address = address;
    const { record } = address;
    if (!this.isLoaded.value) await this.open(record);
    else if (record) await this.showRecord(record);
    else this.target.value = null;
  }

  /** Loads the session at its end or around a record, then follows it. */
  async open(record?: string) {
    try {
      // The page of messages gives the position; the stream begins there even if the window is elsewhere.
      const messages = this.first ?? this.lastMessages();
      this.first = null;
      void this.loadDetail();
      const page = await messages;
      if (this.isClosed) return;
      this.isBeginning = !record;
      this.replace(page, false);
      this.problem.value = null;
      if (record) await this.showRecord(record);
      this.isLoaded.value = true;
      this.follow(page.next_cursor);
      // Not before what is shown first was painted; a hidden page paints nothing.
      const later = () => setTimeout(() => this.showRest(), 0);
      if (document.visibilityState === "visible") requestAnimationFrame(later);
      else later();
    } catch (error) {
      if (!this.isClosed) this.problem.value = describe(error);
    }
  }

  close() {
    this.isClosed = true;
    clearTimeout(this.detailTimer);
    this.stream?.close();
  }

  private follow(cursor: string) {
    this.stream?.close();
    this.stream = new EventStream(sessionPath(this.id, "/events"), cursor, {
      event: (event: EventEnvelope) => {
        applyEvent(this, event);
        if (RECORDS.includes(event.type)) this.recorded.value += 1;
      },
      connection: (state) => {
        const before = this.connection.peek();
        // What could not be loaded in the meantime can be now.
        if (state === "live" && (before === "reconnecting" || before === "no_answer")) this.problem.value = null;
        this.connection.value = state;
      },
      gone: () => {
        this.isDeleted.value = true;
        refreshSoon();
      },
      lost: () => {
        this.live = null;
        void this.open();
      },
    });
  }

  private replace(page: MessagePage, hasNewer: boolean) {
    this.list = linkResults(page.messages.map(fromMessage).reverse());
    this.hasOlder.value = page.next_before !== undefined;
    this.hasNewer.value = hasNewer;
    if (this.live) this.dropWaiting(this.live.messageId);
    if (!hasNewer && this.list.some((item) => item.messageId === this.live?.messageId)) this.live = null;
    this.flush();
  }

  /** Goes to the end of the session. */
  async showEnd() {
    // A view of the messages that is made later does not go there again.
    this.scrollTo.value = null;
    if (this.hasNewer.value) {
      const page = await this.page(FIRST_PAGE);
      if (!page || this.isClosed) return;
      this.replace(page, false);
    }
    this.unseen.value = 0;
  }

  /** Shows a record of the session and what it follows from. */
  async showRecord(record: string) {
    try {
      const view = await get<RecordView>(sessionPath(this.id, `/records/${encodeURIComponent(record)}`));
      if (this.isClosed) return;
      this.target.value = view;
      await this.showNumber(askingAnswer(view)?.number ?? view.number, (items) => findPlace(items, view));
    } catch (error) {
      this.target.value = null;
      this.problem.value = describe(error);
    }
  }

  async showPrompt(prompt: OutlineEntry) {
    await this.showNumber(prompt.number, (items) => {
      const item = items.find((known) => known.messageId === prompt.id);
      return item ? { key: item.key, call: -1 } : null;
    });
  }

  private async showNumber(number: number, find: (items: Item[]) => Place | null) {
    if (!find(this.list)) {
      let page = await this.page(FIRST_PAGE, number + FIRST_PAGE / 2);
      if (page && !reaches(page, number)) page = await this.page(FIRST_PAGE, number + 1);
      if (!page || this.isClosed) return;
      const newest = await this.page(1);
      const end = page.messages[0]?.number ?? -1;
      this.replace(page, (newest?.messages[0]?.number ?? -1) > end);
    }
    // Some records are not messages: then the message before is the place.
    const before = this.list.findLast((item) => item.number !== undefined && item.number <= number);
    this.scrollTo.value = find(this.list) ?? (before ? { key: before.key, call: -1 } : null);
  }

  private async page(limit: number, before?: number): Promise<MessagePage | null> {
    const query = before === undefined ? "" : `&before=${before}`;
    try {
      return await get<MessagePage>(sessionPath(this.id, `/messages?limit=${limit}${query}`));
    } catch (error) {
      this.problem.value = describe(error);
      return null;
    }
  }

  async loadOlder() {
    if (this.isPaging || this.isBeginning || !this.hasOlder.value || !this.isLoaded.value) return;
    this.isPaging = true;
    let isComplete = false;
    try {
      const first = this.list.find((item) => item.recordId)?.recordId;
      if (!first) return;
      const number = await this.numberOf(first);
      const page = number === null ? null : await this.page(PAGE, number);
      if (!page || this.isClosed) return;
      isComplete = true;
      // The window may have moved meanwhile; the page does not belong to its start then.
      if (this.list.find((item) => item.recordId)?.recordId !== first) return;
      this.list = linkResults([...page.messages.map(fromMessage).reverse(), ...this.list]);
      this.hasOlder.value = page.next_before !== undefined;
      if (this.list.length > WINDOW) this.drop("end", this.list.length - WINDOW);
      this.flush();
    } finally {
      this.endPaging(isComplete);
    }
  }

  /** Number of a record of the window. A message that came as events has none until it is asked for. */
  private async numberOf(recordId: string): Promise<number | null> {
    const known = this.list.find((item) => item.recordId === recordId)?.number;
    if (known !== undefined) return known;
    try {
      return (await get<RecordView>(sessionPath(this.id, `/records/${encodeURIComponent(recordId)}`))).number;
    } catch (error) {
      this.problem.value = describe(error);
      return null;
    }
  }

  async loadNewer() {
    if (this.isPaging || !this.hasNewer.value || !this.isLoaded.value) return;
    this.isPaging = true;
    let isComplete = false;
    try {
      const last = this.lastShown();
      const newest = await this.page(PAGE);
      if (!newest || this.isClosed) return;
      const isWhole = reaches(newest, last);
      let page = isWhole ? newest : await this.page(2 * PAGE, last + 1 + PAGE);
      let later: MessagePage["messages"] = [];
      while (page && !reaches(page, last)) {
        later = page.messages;
        page = await this.page(PAGE, page.next_before);
      }
      if (!page || this.isClosed) return;
      isComplete = true;
      if (this.lastShown() !== last) return;
      const added = [...later, ...page.messages].filter((message) => message.number > last).reverse();
      // Between two messages there may be more records of other types than the page spans.
      if (!isWhole && added.length === 0) return this.replace(newest, false);
      this.list = linkResults([...this.list, ...added.map(fromMessage)]);
      if (isWhole) this.hasNewer.value = false;
      if (this.list.length > WINDOW) this.drop("start", this.list.length - WINDOW);
      this.flush();
    } finally {
      this.endPaging(isComplete);
    }
  }

  private lastShown(): number {
    return Math.max(-1, ...this.list.map(lastNumber));
  }

  /** The other end may have been in view meanwhile. After a failure the user's next movement tries again. */
  private endPaging(isComplete: boolean) {
    this.isPaging = false;
    if (isComplete) this.loads.value += 1;
  }

  /** Makes the window smaller, because its messages have too many elements. */
  shrink(side: "start" | "end") {
    const count = Math.floor(this.list.length / 4);
    if (count === 0) return;
    this.drop(side, count);
    this.flush();
  }

  private drop(side: "start" | "end", count: number) {
    if (side === "start") {
      this.list = this.list.slice(count);
      this.hasOlder.value = true;
    } else {
      this.list = this.list.slice(0, -count);
      this.hasNewer.value = true;
    }
  }

  /** Where the log shows an entry: prompts that still wait for their turn come after all others. */
  placeOf({ kind, messageId }: Item): "within" | "end" | "nowhere" {
    if (kind !== "waiting") return "within";
    const status = this.status.value;
    if (status === UNKNOWN) return "nowhere";
    const waits = status.waiting.includes(messageId) || status.message_id === messageId;
    return waits && this.connection.value !== "no_answer" ? "end" : "within";
  }

  // What events change, as LiveSession describes it. Each of these plans one update of the view.

  has(messageId: string): boolean {
    return this.list.some((item) => item.messageId === messageId && !item.isLive);
  }

  hasRecord(recordId: string): boolean {
    return this.list.some((item) => showsRecord(item, recordId));
  }

  dropWaiting(messageId: string) {
    this.list = this.list.filter((item) => item.kind !== "waiting" || item.messageId !== messageId);
  }

  add(item: Item) {
    if (item.kind !== "notice" && !this.isFollowing) this.unseen.value += 1;
    if (!this.hasNewer.value && !this.isFollowing && this.list.length >= WINDOW) this.hasNewer.value = true;
    if (this.hasNewer.value) return this.plan();
    this.list.push(item);
    if (this.isFollowing && this.list.length > WINDOW) this.drop("start", this.list.length - WINDOW);
    this.plan();
  }

  update(change: (items: Item[]) => void) {
    const items = this.live ? [...this.list, this.live] : [...this.list];
    change(items);
    if (this.live) this.live = items.pop() ?? null;
    this.list = items;
    this.plan();
  }

  async reload(recordId: string) {
    const path = sessionPath(this.id, `/records/${encodeURIComponent(recordId)}`);
    try {
      const { number } = await get<RecordView>(path);
      const page = await this.page(1, number + 1);
      const message = page?.messages[0];
      if (!message || message.record_id !== recordId || this.isClosed) return;
      this.list = this.list.map((item) => {
        if (item.recordId !== recordId) return item;
        const fresh = fromMessage(message);
        // Those of the window have their results.
        const calls = item.calls.map((call, i) => ({ ...call, arguments: fresh.calls[i]?.arguments ?? call.arguments }));
        return { ...fresh, calls: calls.length ? calls : fresh.calls };
      });
      this.flush();
    } catch (error) {
      this.problem.value = describe(error);
    }
  }

  plan() {
    if (this.isFlushPlanned) return;
    this.isFlushPlanned = true;
    const flush = () => {
      this.isFlushPlanned = false;
      if (!this.isClosed) this.flush();
    };
    // A hidden page has no frames.
    if (document.visibilityState === "visible") requestAnimationFrame(flush);
    else setTimeout(flush, 200);
  }

  private flush() {
    const isAtEnd = !this.hasNewer.value;
    const shown = this.isBeginning ? this.list.slice(this.firstShown()) : this.list;
    this.items.value = this.live && isAtEnd ? [...shown, this.live] : [...shown];
  }

  /** Index of the first of the messages that fill the view: their layout is most of what the first content takes. */
  private firstShown(): number {
    const end = this.list.length;
    let first = end;
    for (let height = 0; first > Math.max(0, end - FIRST_SHOWN) && height < innerHeight; ) {
      first -= 1;
      height += FRAME_PX + LINE_PX * (this.list[first]?.text.split("\n").length ?? 0);
    }
    const prompt = this.list.findLastIndex((item) => item.kind === "user");
    return prompt < 0 ? first : Math.min(prompt, first);
  }

  private showRest() {
    if (this.isClosed || !this.isBeginning) return;
    this.isBeginning = false;
    this.flush();
    this.loads.value += 1;
  }

  refreshDetail() {
    clearTimeout(this.detailTimer);
    this.detailTimer = window.setTimeout(() => this.loadDetail(), REFRESH_MS);
    refreshSoon();
  }

  private async loadDetail() {
    try {
      const detail = await get<SessionDetail>(sessionPath(this.id));
      if (this.isClosed) return;
      this.detail.value = detail;
      rememberDirectory(detail.cwd);
    } catch {
      // The messages or the stream say what is wrong.
    }
  }
}

let prepared: SessionModel | null = null;

/** Loads the session that the address names, before anything is drawn: messages that come soon are drawn together with the rest. */
export async function prepareSession(address: SessionRoute) {
  const model = new SessionModel(address.id);
  prepared = model;
  await Promise.race([model.visit(address), new Promise((resolve) => setTimeout(resolve, PATIENCE_MS))]);
}

/** Returns the model of a session: the one that was prepared, or a new one. */
export function sessionModel(id: string): SessionModel {
  if (prepared?.id !== id) return new SessionModel(id);
  const model = prepared;
  prepared = null;
  return model;
}

/** Ends the session that was prepared, if what was drawn does not show it. */
export function dropPrepared() {
  prepared?.close();
  prepared = null;
}
