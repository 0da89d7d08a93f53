import type { RecordView } from "../api/types";
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
};

/** What a record follows from and what followed from it. */
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
              <span class="chain-type">{TYPE_WORDS[entry.type] ?? visible(entry.type)}</span> {visible(entry.text)}
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
