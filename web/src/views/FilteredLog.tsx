import { useEffect, useRef, useState } from "preact/hooks";
import { describe } from "../api/client";
import { FILTERS, type Matches, logFilter, readMatches } from "../state/filters";
import type { SessionModel } from "../state/session";
import { MessageView } from "./Message";

/** Chooses what the log shows. */
export function FilterSelect() {
  return (
    <select
      id="log-filter"
      aria-label="Show"
      value={logFilter.value}
      onChange={(event) => {
        logFilter.value = event.currentTarget.value;
      }}
    >
      <option value="">All messages</option>
      {Object.entries(FILTERS).map(([name, { label }]) => (
        <option value={name}>{label}</option>
      ))}
    </select>
  );
}

/** The messages of the session that the filter lets through, a page of them at a time. */
export function FilteredLog({ model, filter }: { model: SessionModel; filter: string }) {
  const log = useRef<HTMLDivElement>(null);
  const [before, setBefore] = useState<number | undefined>();
  const [found, setFound] = useState<Matches | null>(null);
  const { status } = model.status.value;
  useEffect(() => setBefore(undefined), [filter]);
  useEffect(() => {
    const abort = new AbortController();
    setFound(null);
    readMatches(model.id, filter, abort.signal, before)
      .then(setFound)
      .catch((error) => {
        if (!abort.signal.aborted) model.problem.value = describe(error);
      });
    return () => abort.abort();
    // With the status, there are new messages.
  }, [filter, before, status]);
  useEffect(() => {
    if (log.current) log.current.scrollTop = log.current.scrollHeight;
  }, [found]);
  useEffect(() => {
    const onEnd = (event: Event) => {
      const isKey = event instanceof CustomEvent && event.detail === "focus";
      if (isKey) [...(log.current?.querySelectorAll<HTMLElement>("[data-message]") ?? [])].at(-1)?.focus();
      // A prompt was sent.
      else logFilter.value = "";
    };
    document.addEventListener("aish:end", onEnd);
    return () => document.removeEventListener("aish:end", onEnd);
  }, []);
  const label = FILTERS[filter]?.label ?? "";
  return (
    <div class="log-frame">
      <div class="log" ref={log} tabIndex={-1}>
        <div class="log-inner">
          <p class="edge" role="status">
            {!found ? "Searching…" : `${label}: ${found.items.length || "none"}${before !== undefined ? " earlier" : found.before ? " of the last" : ""}`}
          </p>
          {found?.before !== undefined && (
            <button type="button" onClick={() => setBefore(found.before)}>
              Show earlier
            </button>
          )}
          {found?.items.filter((item) => model.placeOf(item) === "within").map((item) => <MessageView key={item.key} item={item} session={model.id} target={null} />)}
          {before !== undefined && (
            <button type="button" onClick={() => setBefore(undefined)}>
              Show the last
            </button>
          )}
        </div>
      </div>
    </div>
  );
}
