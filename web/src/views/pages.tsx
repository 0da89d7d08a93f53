// The views that show no data.

import { useEffect } from "preact/hooks";
import { createSession, followSessions, isCreating } from "../state/sessions";
import { useTitle } from "./title";

export function Home() {
  useTitle();
  useEffect(followSessions, []);
  return (
    <div class="empty home">
      <h1>aish</h1>
      <p>Choose a session, or begin a new one.</p>
      <button type="button" class="primary" onClick={createSession}>
        {isCreating.value ? "New session…" : "New session"}
      </button>
      <p class="quiet">
        Press <kbd>?</kbd> for the keys.
      </p>
    </div>
  );
}

export function Unknown() {
  useTitle("There is no such page");
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
