// The bearer that all browsers share: traded for the one-use ticket of `aish-helper web`, kept in memory and in the tab's session storage.
//
// Tabs of this page hand the bearer to each other, so that a link opened in a new tab works, and so that a tab whose bearer
// ended continues as soon as the page was opened again with a new ticket.

import { signal } from "@preact/signals";
import { tabValue } from "./tab-value";

const { value: bearer, store } = tabValue("aish.bearer");
export { bearer };

/** `pending`: a ticket is being traded, or other tabs are asked. */
export const access = signal<"pending" | "ready" | "missing">("pending");
/** Why there is no access, if the server said so. */
export const accessProblem = signal<string | null>(null);

type Note = { ask: true } | { bearer: string };
/** Bearers that the server refused. A hidden tab may still hold one and offer it. */
const refused = new Set<string>();
let tabs: BroadcastChannel | null = null;

/** Time that other tabs have to answer, in milliseconds. */
const TAB_ANSWER_MS = 250;

/** A ticket of `aish-helper web`, or with `--approve` one for pairing. */
export type PageTicket = { kind: "t" | "p"; value: string };

/** Takes the ticket out of the address, so that it is in no history and no copied address. */
export function takeTicket(): PageTicket | null {
  const found = /^#([tp])=(.*)$/.exec(location.hash);
  if (!found) return null;
  history.replaceState(history.state, "", location.pathname + location.search);
  const value = found[2] ?? "";
  try {
    return { kind: found[1] as "t" | "p", value: decodeURIComponent(value) };
  } catch {
    return { kind: found[1] as "t" | "p", value };
  }
}

/** Takes a bearer that the server gave, and hands it to the other tabs. */
export function admit(value: string) {
  store(value);
  accessProblem.value = null;
  access.value = "ready";
  post({ bearer: value });
}

/** Gets a bearer: for the ticket, from this tab's storage, or from another tab. */
export async function signIn(ticket: string | null) {
  listen();
  if (ticket) {
    access.value = "pending";
    await trade(ticket);
  }
  if (bearer.value) {
    access.value = "ready";
    return;
  }
  post({ ask: true });
  setTimeout(() => {
    if (access.value === "pending") access.value = "missing";
  }, TAB_ANSWER_MS);
}

async function trade(ticket: string) {
  try {
    const response = await fetch("/v1/tickets", {
      method: "POST",
      headers: { "content-type": "application/json" },
      body: JSON.stringify({ ticket }),
      credentials: "omit",
    });
    const body = await response.json();
    if (response.ok && typeof body.bearer === "string") {
      return admit(body.bearer);
    }
    accessProblem.value = typeof body.message === "string" ? body.message : "the ticket was not accepted";
  } catch {
    accessProblem.value = "the daemon does not answer";
  }
}

function listen() {
  if (tabs || typeof BroadcastChannel === "undefined") return;
  tabs = new BroadcastChannel("aish.bearer");
  tabs.onmessage = (event: MessageEvent<Note>) => {
    const note = event.data;
    if ("ask" in note) {
      if (bearer.value && access.value === "ready") post({ bearer: bearer.value });
    } else if (access.value !== "ready" && !refused.has(note.bearer)) {
      store(note.bearer);
      accessProblem.value = null;
      access.value = "ready";
    }
  };
}

function post(note: Note) {
  tabs?.postMessage(note);
}

/** The server refused this bearer. */
export function rejectBearer(used: string | null) {
  if (used !== bearer.value) return;
  if (used) refused.add(used);
  store(null);
  access.value = "missing";
  post({ ask: true });
}
