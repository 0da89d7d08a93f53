import { useEffect, useState } from "preact/hooks";
import { describe, get, sessionPath } from "../api/client";
import type { RecordView } from "../api/types";
import { type Call, STATUS_WORDS, text } from "../state/items";
import { sessionAddress } from "../state/route";
import { bytes, duration } from "../text/format";
import { visible } from "../text/visible";
import { Output } from "./Output";

interface Props {
  call: Call;
  session: string;
  isTarget: boolean;
  /** Whether it gets no result any more. */
  isOver: boolean;
}

/** A tool call: one line that opens to its arguments and its result. */
export function ToolCall({ call, session, isTarget, isOver }: Props) {
  const { result } = call;
  const [isOpen, setOpen] = useState(isTarget);
  useEffect(() => {
    if (isTarget) setOpen(true);
  }, [isTarget]);
  // A call that nobody decided on was not made, unless the daemon ended: it may have been running then.
  const isUnmade = result?.status === "interrupted" && !result.decidedBy && !result.error;
  const status = callStatus(call, isOver, isUnmade);
  const kind = !result ? "open" : result.status === "success" ? "good" : "bad";
  const isMade = result && !isUnmade && !["denied", "blocked", "invalid_call"].includes(result.status);
  return (
    <details
      class={isTarget ? "call target" : "call"}
      open={isOpen}
      onToggle={(event) => setOpen(event.currentTarget.open)}
    >
      <summary>
        <span class="call-name">{visible(call.name)}</span> <span class={`call-status ${kind}`}>{status}</span>{" "}
        {isMade && result.durationMs !== undefined && <span class="call-time">{duration(result.durationMs)}</span>}
      </summary>
      {isOpen && <CallBody call={call} session={session} isTarget={isTarget} />}
    </details>
  );
}

function callStatus({ result, isRunning }: Call, isOver: boolean, isUnmade: boolean): string {
  if (isUnmade) return "not made: the answer was cancelled";
  if (result?.status === "interrupted" && result.error) return "no result: the daemon ended";
  if (result) return STATUS_WORDS[result.status] ?? visible(result.status);
  if (isOver) return "no result";
  return isRunning ? "running" : "no result yet";
}

function CallBody({ call, session, isTarget }: Omit<Props, "isOver">) {
  const { result } = call;
  return (
    <div class="call-body">
      <h3>Arguments</h3>
      <pre>
        <code>{visible(pretty(call.arguments))}</code>
      </pre>
      {result && (
        <div class="call-head">
          <h3>Result</h3>
          <a href={sessionAddress(session, result.recordId)}>Show the record</a>
        </div>
      )}
      {result?.error && <p class="problem">{visible(result.error)}</p>}
      {result?.reason && (
        <p class="quiet">
          {result.decidedBy === "person" ? "Decided by you" : "Decided by a rule"}: {visible(result.reason)}
        </p>
      )}
      {result ? <Result call={call} session={session} isTarget={isTarget} /> : call.output && <Output text={call.output} />}
    </div>
  );
}

function Result({ call, session, isTarget }: Omit<Props, "isOver">) {
  const result = call.result;
  const [whole, setWhole] = useState<string | null>(null);
  const [problem, setProblem] = useState("");
  const load = async () => {
    if (!result) return;
    try {
      const path = sessionPath(session, `/records/${encodeURIComponent(result.recordId)}`);
      setWhole(text((await get<RecordView>(path)).record.text));
    } catch (error) {
      setProblem(describe(error).message);
    }
  };
  // What the address names may be in the part that is not there yet.
  useEffect(() => {
    if (isTarget && result?.omitted) void load();
  }, [isTarget, result?.recordId]);
  if (!result) return null;
  const shown = whole ?? result.text;
  return (
    <>
      {shown ? <Output text={shown} isWhole={isTarget} isPart={shown !== whole && result.omitted > 0} /> : <p class="quiet">The result is empty.</p>}
      {problem && <p class="problem">{visible(problem)}</p>}
      {result.omitted > 0 && whole === null && (
        <button type="button" class="more" onClick={load}>
          Load {bytes(result.omitted)} more
        </button>
      )}
    </>
  );
}

/** Characters of arguments that are shown in one line. */
const ONE_LINE = 80;

/** Indents JSON, unless it is short; other text stays as it is. */
function pretty(json: string): string {
  if (json.length <= ONE_LINE) return json;
  try {
    return JSON.stringify(JSON.parse(json), null, 2);
  } catch {
    return json;
  }
}
