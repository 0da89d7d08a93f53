// A stream of events that survives disconnections: it resumes after the last event that it delivered.

import type { EventEnvelope } from "./types";
import { pairing, unpaired } from "../state/pairing";
import { ApiProblem, send } from "./client";
import { EventParser } from "./sse";

/** State of the connection that the page shows. */
export type Connection = "connecting" | "live" | "reconnecting" | "no_answer" | "paused" | "ended";

/** Heartbeats come every 15 s; a stream without any for this time is dead. */
const SILENCE_MS = 31_000;
/** Time that the daemon has to begin its answer after one that failed, in milliseconds. */
const ANSWER_MS = 8000;
const FIRST_DELAY_MS = 500;
const LONGEST_DELAY_MS = 10_000;
/** Failed attempts in a row after which the daemon counts as gone. */
const ATTEMPTS_UNTIL_GONE = 2;
/** Streams that all pages of a browser have at the same time. A browser has six connections to one server, and what needs a seventh
 * waits in silence: the others are for requests that are not streams. */
const STREAMS = 4;
/** How often a page without a stream asks for what is new, in milliseconds. */
const POLL_MS = 1000;
/** Time after which a hidden page gives its connection back: a browser has only six of them for one server. */
const HIDDEN_MS = 30_000;

export interface StreamListener {
  event(event: EventEnvelope): void;
  connection(state: Connection): void;
  /** The position is not known to the server: everything must be loaded again. */
  lost(): void;
  /** The followed stream no longer exists. */
  gone?(): void;
}

/** Takes one of the places for streams, if one is free. Returns what frees it; the end of the page does too. */
async function takePlace(): Promise<(() => void) | null> {
  for (let place = 0; place < STREAMS; place += 1) {
    const free = await new Promise<(() => void) | null>((resolve) => {
      const take = (lock: Lock | null) => (lock ? new Promise<void>((end) => resolve(end)) : resolve(null));
      navigator.locks.request(`aish-stream-${place}`, { ifAvailable: true }, take).catch(() => resolve(null));
    });
    if (free) return free;
  }
  return null;
}

export class EventStream {
  private abort: AbortController | null = null;
  private failures = 0;
  private silence = 0;
  /** Whether the last attempt has ended because nothing came. */
  private isSilent = false;
  private hiddenTimer = 0;
  private retryTimer = 0;
  private wake: (() => void) | null = null;
  private isClosed = false;

  constructor(
    private readonly path: string,
    private cursor: string | null,
    private readonly listener: StreamListener,
  ) {
    document.addEventListener("visibilitychange", this.visibility);
    window.addEventListener("online", this.hurry);
    void this.run();
  }

  /** Position after the last event. */
  get position(): string | null {
    return this.cursor;
  }

  close() {
    this.isClosed = true;
    document.removeEventListener("visibilitychange", this.visibility);
    window.removeEventListener("online", this.hurry);
    clearTimeout(this.hiddenTimer);
    this.stop();
    this.hurry();
  }

  private stop() {
    clearTimeout(this.silence);
    this.abort?.abort();
  }

  private isPaused = false;

  private readonly visibility = () => {
    clearTimeout(this.hiddenTimer);
    // A paired page continues: the questions of a prompt without a terminal wait for it.
    if (document.visibilityState === "hidden" && !pairing.value) {
      this.hiddenTimer = window.setTimeout(() => {
        this.isPaused = true;
        this.stop();
      }, HIDDEN_MS);
    } else {
      this.isPaused = false;
      this.hurry();
    }
  };

  /** Ends the wait before the next attempt. */
  private readonly hurry = () => {
    clearTimeout(this.retryTimer);
    this.wake?.();
  };

  private async run() {
    this.listener.connection("connecting");
    while (!this.isClosed) {
      if (this.isPaused) {
        this.listener.connection("paused");
        await this.wait(null);
        continue;
      }
      const outcome = await this.attempt();
      if (this.isClosed) return;
      if (outcome === "ended") {
        this.listener.connection("ended");
        return;
      }
      if (this.isPaused) continue;
      if (outcome === "caught_up") {
        await this.wait(POLL_MS);
        continue;
      }
      this.listener.connection(this.isSilent || this.failures > ATTEMPTS_UNTIL_GONE ? "no_answer" : "reconnecting");
      const delay = FIRST_DELAY_MS * 2 ** Math.min(this.failures, 5);
      this.failures += 1;
      await this.wait(Math.min(delay, LONGEST_DELAY_MS));
    }
  }

  private wait(ms: number | null): Promise<void> {
    return new Promise((resolve) => {
      this.wake = () => {
        this.wake = null;
        resolve();
      };
      if (ms !== null) this.retryTimer = window.setTimeout(() => this.wake?.(), ms);
    });
  }

  private async attempt(): Promise<"cut" | "ended" | "caught_up"> {
    const abort = new AbortController();
    this.abort = abort;
    const free = await takePlace();
    const query = new URLSearchParams();
    if (this.cursor !== null) query.set("since", this.cursor);
    if (!free) query.set("follow", "false");
    const own = pairing.value;
    try {
      this.expectBytes(abort, this.failures > 0 ? ANSWER_MS : SILENCE_MS);
      const response = await send(`${this.path}?${query}`, { signal: abort.signal }, own ?? undefined);
      const reader = response.body?.pipeThrough(new TextDecoderStream()).getReader();
      if (!reader) return "cut";
      const parser = new EventParser();
      for (;;) {
        const { value, done } = await reader.read();
        if (this.isClosed) return "ended";
        if (done) return free || this.failures > 0 ? "cut" : "caught_up";
        this.expectBytes(abort);
        for (const received of parser.push(value)) {
          const event: EventEnvelope = JSON.parse(received.data);
          if (received.id !== null) this.cursor = received.id;
          this.failures = 0;
          this.listener.connection("live");
          this.listener.event(event);
          if (event.type === "x.session.deleted") return "ended";
          if (this.isClosed) return "ended";
        }
      }
    } catch (error) {
      return this.failed(error, own);
    } finally {
      clearTimeout(this.silence);
      abort.abort();
      free?.();
    }
  }

  private failed(error: unknown, own: string | null): "cut" | "ended" {
    if (!(error instanceof ApiProblem)) return "cut";
    if (error.status === 401 && own) {
      // The pairing has ended, and the page continues as any other.
      unpaired(own);
      return "cut";
    }
    // 401: the page asks for a new ticket and begins again.
    if (error.status === 401) return "ended";
    if (error.status === 404) {
      this.listener.gone?.();
      return "ended";
    }
    if (error.status === 400 || error.status === 410) {
      this.listener.lost();
      return "ended";
    }
    return "cut";
  }

  private expectBytes(abort: AbortController, ms = SILENCE_MS) {
    clearTimeout(this.silence);
    this.isSilent = false;
    this.silence = window.setTimeout(() => {
      this.isSilent = true;
      abort.abort();
    }, ms);
  }
}
