import { useEffect, useRef, useState } from "preact/hooks";
import { describe, get } from "../api/client";
import type { ActivityList, ActivityView } from "../api/types";
import { STATUS_WORDS } from "../state/items";
import { sessionAddress } from "../state/route";
import { followSessions, sessions } from "../state/sessions";
import { duration, fullTime } from "../text/format";
import { visible } from "../text/visible";
import { ProblemWords } from "./Share";
import { useTitle } from "./title";

const PAGE = 50;

const TYPES: Record<string, string> = {
  prompt: "Prompt",
  answer: "Answer",
  tool: "Tool call",
  approval: "Decision on a tool call",
  command_approval: "Decision on a command",
  command_result: "Command ended",
  shell_command: "Command",
  session: "Session",
  model: "Model",
  policy: "Rule",
  server: "MCP server",
};

/** Activity in all sessions and outside of them, newest first. */
export function Activity() {
  const [type, setType] = useState("");
  const [entries, setEntries] = useState<ActivityView[] | null>(null);
  const [hasMore, setMore] = useState(false);
  const [problem, setProblem] = useState<{ message: string; hint?: string } | null>(null);
  const request = useRef(0);
  const isReadingOlder = useRef(false);
  useTitle("Activity");
  useEffect(followSessions, []);

  /** Reads new entries, or with `before` those older than that. */
  const load = async (known: ActivityView[], before?: number) => {
    const current = ++request.current;
    isReadingOlder.current = before !== undefined;
    const query = new URLSearchParams({ limit: String(PAGE) });
    if (type) query.set("type", type);
    if (before !== undefined) query.set("before_ms", String(before));
    try {
      const { activities } = await get<ActivityList>(`/v1/activity?${query}`);
      if (current !== request.current) return;
      const ids = new Set(known.map((entry) => entry.record_id));
      const fresh = activities.filter((entry) => !ids.has(entry.record_id));
      // What is between the newest ones and those that were known is not there.
      const isGap = before === undefined && fresh.length === PAGE;
      setEntries(isGap ? fresh : before === undefined ? [...fresh, ...known] : [...known, ...fresh]);
      if (before !== undefined || isGap || known.length === 0) setMore(activities.length === PAGE && fresh.length > 0);
      setProblem(null);
    } catch (error) {
      if (current === request.current) setProblem(describe(error));
    } finally {
      if (current === request.current) isReadingOlder.current = false;
    }
  };
  useEffect(() => {
    setEntries(null);
    void load([]);
  }, [type]);
  // The list of sessions is read again after each change of one.
  const list = sessions.value;
  useEffect(() => {
    if (entries && !isReadingOlder.current) void load(entries);
  }, [list]);

  const last = entries?.[entries.length - 1];
  return (
    <div class="listing">
      <header class="bar">
        <a class="back" href="/">
          Sessions
        </a>
        <h1>Activity</h1>
        <select aria-label="Type" value={type} onChange={(event) => setType(event.currentTarget.value)}>
          <option value="">All types</option>
          {Object.entries(TYPES).map(([value, words]) => (
            <option value={value}>{words}</option>
          ))}
        </select>
      </header>
      {problem && (
        <div class="listing-problem">
          <ProblemWords problem={problem} />
        </div>
      )}
      {entries?.length === 0 && <p class="quiet">{type ? "There is no activity of this type." : "There is no activity yet."}</p>}
      {!!entries?.length && (
        <ul class="entries">
          {entries.map((entry) => (
            <Entry key={entry.record_id} entry={entry} />
          ))}
        </ul>
      )}
      {hasMore && last && entries && (
        // The end of the period is exclusive, and several may be of the same millisecond.
        <button type="button" class="more" onClick={() => load(entries, last.timestamp_ms + 1)}>
          Show more
        </button>
      )}
    </div>
  );
}

function Entry({ entry }: { entry: ActivityView }) {
  const { session_id: session, server, tool, type } = entry;
  const title = sessions.value.find(({ id }) => id === session)?.title;
  const name = [server, tool].filter(Boolean).join(".");
  const isDecision = type.endsWith("approval");
  const facts = [
    entry.status !== "success" ? visible(STATUS_WORDS[entry.status] ?? entry.status) : isDecision && "approved",
    entry.decided_by && (entry.decided_by === "person" ? "by you" : `by a ${visible(entry.decided_by)}`),
    entry.duration_ms !== null && duration(entry.duration_ms),
  ];
  return (
    <li>
      <p class="entry-head">
        <time dateTime={new Date(entry.timestamp_ms).toISOString()}>{fullTime(entry.timestamp_ms)}</time>
        <strong>
          {TYPES[type] ?? visible(type)} {name && <code>{visible(name)}</code>}
        </strong>
        {facts.filter(Boolean).map((fact) => (
          <span>{fact}</span>
        ))}
      </p>
      <p class="entry-text">{visible(entry.text)}</p>
      {session && (
        <p class="entry-head">
          {/* A command of your own is recorded outside of the session. */}
          {type !== "shell_command" && <a href={sessionAddress(session, entry.record_id)}>Record</a>}
          <a href={sessionAddress(session)}>{visible(title || "Session")}</a>
        </p>
      )}
    </li>
  );
}
