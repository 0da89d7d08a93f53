import type { Connection } from "../api/stream";

const CONNECTION_WORDS: Record<Connection, string> = {
  connecting: "connecting…",
  live: "live",
  reconnecting: "reconnecting…",
  no_answer: "the daemon does not answer: run any llm command to start it",
  paused: "paused while hidden",
  ended: "ended",
};

export function ConnectionState({ state }: { state: Connection }) {
  return (
    <span class={`connection ${state}`} role="status">
      {CONNECTION_WORDS[state]}
    </span>
  );
}
