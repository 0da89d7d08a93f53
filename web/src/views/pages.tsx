// The views without a session, except the list of shares.

import { useEffect, useState } from "preact/hooks";
import { ApiProblem, describe, get } from "../api/client";
import type { Fields } from "../api/types";
import { createSession, followSessions } from "../state/sessions";
import { text } from "../state/items";
import { fullTime } from "../text/format";
import { visible } from "../text/visible";

export function Home() {
  useEffect(followSessions, []);
  return (
    <div class="empty home">
      <h1>aish</h1>
      <p>Choose a session, or begin a new one.</p>
      <button type="button" class="primary" onClick={createSession}>
        New session
      </button>
      <p class="quiet">
        Press <kbd>?</kbd> for the keys.
      </p>
    </div>
  );
}

export function Unknown() {
  useEffect(followSessions, []);
  return (
    <div class="empty">
      <h1>There is no such page</h1>
      <p>
        <a href="/">All sessions</a>
      </p>
    </div>
  );
}

export function Activity() {
  return (
    <Listing
      title="Activity"
      path="/v1/activity"
      field="activity"
      missing="This version of aish does not show the activity here yet. In a terminal: aish-helper activity."
      none="There is no activity yet."
    />
  );
}

interface ListingProps {
  title: string;
  path: string;
  field: string;
  missing: string;
  none: string;
}

type State = { entries: Fields[] } | { message: string; hint?: string } | null;

function Listing({ title, path, field, missing, none }: ListingProps) {
  const [state, setState] = useState<State>(null);
  useEffect(followSessions, []);
  useEffect(() => {
    document.title = `${title} – aish`;
    const abort = new AbortController();
    get<Record<string, Fields[]>>(path, abort.signal)
      .then((body) => setState({ entries: body[field] ?? body.entries ?? body.records ?? [] }))
      .catch((error) => {
        if (abort.signal.aborted) return;
        const isMissing = error instanceof ApiProblem && error.status === 404;
        setState(isMissing ? { message: missing } : describe(error));
      });
    return () => abort.abort();
  }, [path]);
  return (
    <div class="listing">
      <header class="bar">
        <a class="back" href="/">
          Sessions
        </a>
        <h1>{title}</h1>
      </header>
      {state && "message" in state && (
        <p class="quiet">
          {visible(state.message)} {state.hint && visible(state.hint)}
        </p>
      )}
      {state && "entries" in state && (state.entries.length ? <Entries entries={state.entries} /> : <p class="quiet">{none}</p>)}
    </div>
  );
}

/** Entries of any type: their time, what they are called, and all their fields. */
function Entries({ entries }: { entries: Fields[] }) {
  return (
    <ul class="entries">
      {entries.slice(0, 100).map((entry) => (
        <li>
          <details>
            <summary>
              {typeof entry.timestamp_ms === "number" && <time>{fullTime(entry.timestamp_ms)}</time>}{" "}
              {visible(text(entry.title) || text(entry.type) || text(entry.name) || text(entry.id) || "entry")}
            </summary>
            <pre>
              <code>{visible(JSON.stringify(entry, null, 2))}</code>
            </pre>
          </details>
        </li>
      ))}
    </ul>
  );
}
