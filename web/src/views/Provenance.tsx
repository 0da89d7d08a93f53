import type { ChainEntry, RecordView } from "../api/types";
import { CHOICE_WORDS, STATUS_WORDS } from "../state/items";
import { go, sessionAddress } from "../state/route";
import type { SessionModel } from "../state/session";
import { visible } from "../text/visible";
import { CopyButton } from "./CopyButton";

const TYPE_WORDS: Record<string, string> = {
  user: "Prompt",
  waiting_prompt: "Prompt accepted",
  assistant: "Answer",
  approval: "Decision",
  tool: "Tool result",
  command_approval: "Decision on a command",
  command_result: "Command ended",
  compaction: "Older part summarized",
};

/** The decision about a call, and who made it. */
const DECISION_WORDS: Record<string, string> = {
  once: "approved",
  tool: "approved for this tool",
  reads: "approved for calls that only read",
  server: "approved for this server",
  always: "approved, with a new rule",
  rule: "approved by a rule",
  no: "denied",
  stop: "denied, and the answer was cancelled",
  no_terminal: "denied: there was no terminal to ask on",
  timed_out: "denied: nobody answered in time",
  cancelled: "cancelled before an answer",
  denied: "denied by a rule",
};

/** The text of an entry, with words for the code that it ends or begins with. */
function chainWords({ type, text }: ChainEntry): string {
  const coded = type === "command_approval" ? /^(?<code>\w+): (?<rest>[^]*)$/ : /^(?<rest>[^]*) (?<code>\w+)$/;
  const words = { tool: STATUS_WORDS, approval: DECISION_WORDS, command_approval: CHOICE_WORDS }[type];
  const { code = "", rest } = coded.exec(text)?.groups ?? {};
  return words?.[code] ? `${type === "command_approval" ? `${words[code]}: ${rest}` : `${rest}: ${words[code]}`}` : text;
}

/** Causes and consequences of a record. */
export function Provenance({ model, view }: { model: SessionModel; view: RecordView }) {
  const id = String(view.record.id ?? "");
  const json = JSON.stringify(view.record, null, 2);
  return (
    <section class="provenance" aria-label="Record">
      <div class="dialog-head">
        <h2>Record {view.number}</h2>
        <button type="button" class="small" onClick={() => go(sessionAddress(model.id))}>
          Close
        </button>
      </div>
      <ol class="chain">
        {view.chain.slice(0, 200).map((entry) => (
          <li key={entry.record_id}>
            <a href={sessionAddress(model.id, entry.record_id)} aria-current={entry.record_id === id ? "true" : undefined}>
              <span class="chain-type">{TYPE_WORDS[entry.type] ?? visible(entry.type)}</span> {visible(chainWords(entry))}
            </a>
          </li>
        ))}
      </ol>
      <details>
        <summary>The record as JSON</summary>
        <CopyButton text={json} of="the record" />
        <pre>
          <code>{visible(json)}</code>
        </pre>
      </details>
    </section>
  );
}
