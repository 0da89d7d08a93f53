// The pairing of this tab: its own bearer, with which questions are answered. The person has confirmed it in the terminal.
//
// It is kept in this tab only, and not handed to others: a right to approve belongs where the person has compared the code.

import { signal } from "@preact/signals";
import { ApiProblem, describe, get, write } from "../api/client";
import type { NewPairing, PairingView } from "../api/types";
import { access, accessProblem, admit } from "./auth";
import { showNote } from "./announce";
import { tabValue } from "./tab-value";

const PATH = "/v1/pairing";
/** Pause before the decision is asked for again when the daemon does not answer, in milliseconds. */
const RETRY_MS = 1000;

const { value: pairing, store } = tabValue("aish.pairing");
export { pairing };
/** The code that is compared while the terminal asks. */
export const code = signal<string | null>(null);

/** Trades the ticket for a code, and waits for the person's decision. */
export async function pair(ticket: string) {
  try {
    const begun = await write<NewPairing>("POST", PATH, { ticket }, "");
    if (!begun) return;
    code.value = begun.code;
    const decided = await decision(begun.bearer);
    store(begun.bearer);
    if (decided.bearer) admit(decided.bearer);
    showNote("This browser may answer questions now.");
  } catch (error) {
    const { message } = describe(error);
    showNote(`Not paired: ${message}`, true);
    if (access.value !== "ready") accessProblem.value = `not paired: ${message}`;
  } finally {
    code.value = null;
  }
}

async function decision(bearer: string): Promise<PairingView> {
  for (;;) {
    try {
      const view = await get<PairingView>(PATH, undefined, bearer);
      if (view.state === "paired") return view;
    } catch (error) {
      if (!(error instanceof ApiProblem) || error.status !== 0) throw error;
      await new Promise((resolve) => setTimeout(resolve, RETRY_MS));
    }
  }
}

/** Asks the server whether this tab is still paired. */
export async function checkPairing() {
  const own = pairing.value;
  if (!own) return;
  try {
    await get<PairingView>(PATH, undefined, own);
  } catch (error) {
    if (error instanceof ApiProblem && error.status === 401) unpaired(own);
  }
}

/** The server no longer knows this pairing. */
export function unpaired(own: string) {
  if (own === pairing.value) store(null);
}
