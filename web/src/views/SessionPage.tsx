import { useEffect, useMemo } from "preact/hooks";
import { access } from "../state/auth";
import { readDraft } from "../state/drafts";
import { logFilter } from "../state/filters";
import { isOutlineOpen } from "../state/keys";
import { isReplayOpen, leaveRecordings } from "../state/replay";
import type { SessionRoute } from "../state/route";
import { sessionModel } from "../state/session";
import { visible } from "../text/visible";
import { Composer } from "./Composer";
import { CopyButton } from "./CopyButton";
import { FilteredLog } from "./FilteredLog";
import { LogView } from "./Log";
import { OutlineDialog } from "./Outline";
import { Provenance } from "./Provenance";
import { ReplayPanel } from "./Replay";
import { SessionHeader, knownSession } from "./SessionHeader";
import { useTitle } from "./title";

export function SessionPage({ address }: { address: SessionRoute }) {
  const { id, record } = address;
  const model = useMemo(() => sessionModel(id), [id]);
  useEffect(
    () => () => {
      model.close();
      leaveRecordings();
    },
    [model],
  );
  useEffect(() => {
    // A record is shown among the messages around it.
    logFilter.value = "";
    void model.visit(address);
    // A link to what the address names already is a wish to see it again.
  }, [model, address]);
  const problem = model.problem.value;
  const gone = model.isDeleted.value ? "This session was deleted." : model.isLoaded.value ? undefined : problem?.message;
  useTitle(gone ?? (knownSession(model)?.title || "New session"));
  // A stream that ended with 401 begins again once there is a new bearer: then this view is made again.
  if (access.value !== "ready") return null;

  if (model.isDeleted.value) return <Gone id={id} text="This session was deleted." />;
  if (!model.isLoaded.value && problem) return <Gone id={id} text={problem.message} hint={problem.hint} retry={() => model.open(record)} />;
  return (
    <div class="session">
      <SessionHeader model={model} />
      {model.target.value && <Provenance model={model} view={model.target.value} />}
      <div class="session-body">
        {logFilter.value ? <FilteredLog model={model} filter={logFilter.value} /> : <LogView model={model} />}
        {isReplayOpen.value && <ReplayPanel session={id} />}
      </div>
      <Composer model={model} />
      {isOutlineOpen.value && <OutlineDialog model={model} />}
    </div>
  );
}

function Gone({ id, text, hint, retry }: { id: string; text: string; hint?: string; retry?: () => void }) {
  const draft = useMemo(() => readDraft(id), [id]);
  return (
    <div class="empty">
      <h1>{visible(text)}</h1>
      {hint && <p>{visible(hint)}</p>}
      {retry && (
        <button type="button" onClick={retry}>
          Try again
        </button>
      )}
      {draft && (
        <div class="unsent">
          <p>
            Your prompt was not sent: <CopyButton text={draft} of="the prompt" />
          </p>
          <pre>{visible(draft)}</pre>
        </div>
      )}
      <p>
        <a href="/">All sessions</a>
      </p>
    </div>
  );
}
