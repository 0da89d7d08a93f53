import { useEffect, useLayoutEffect, useRef, useState } from "preact/hooks";
import { describe } from "../api/client";
import { FILTERS, type Matches, logFilter, readMatches } from "../state/filters";
import { leaveRecord } from "../state/route";
import type { SessionModel } from "../state/session";
import { Waiting } from "./Log";
import { MessageView } from "./Message";

/** Selects the items that the log shows. */
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

/** Distance from the end within which the view follows it, in pixels. */
const END_PX = 32;

/** Describes how many of the messages are shown, such as “The last 30 prompts”. */
function countWords(label: string, { items, before }: Matches, isEarlier: boolean): string {
  const count = items.length;
  const words = count === 1 ? label.slice(0, -1) : label;
  if (isEarlier) return `${count} earlier ${words}`;
  return before === undefined || count === 0 ? `${count || "No"} ${words}` : `The last ${count} ${words}`;
}

/** The messages of the session that the filter lets through, a page of them at a time. */
export function FilteredLog({ model, filter }: { model: SessionModel; filter: string }) {
  const log = useRef<HTMLDivElement>(null);
  const [before, setBefore] = useState<number | undefined>();
  const [found, setFound] = useState<Matches | null>(null);
  const wanted = `${filter} ${before}`;
  /** What `found` is of, and whether its end was in view. */
  const shown = useRef("");
  const isAtEnd = useRef(true);
  const { status, message_id: answered } = model.status.value;
  useEffect(() => setBefore(undefined), [filter]);
  useEffect(() => {
    const abort = new AbortController();
    // The shown messages stay until newer ones have been read.
    const known = shown.current === wanted && found ? found : undefined;
    if (known && before !== undefined) return;
    if (!known) setFound(null);
    readMatches(model.id, filter, abort.signal, before, known)
      .then((matches) => {
        const view = log.current;
        isAtEnd.current = !known || !view || view.scrollHeight - view.scrollTop - view.clientHeight < END_PX;
        shown.current = wanted;
        setFound(matches);
      })
      .catch((error) => {
        if (!abort.signal.aborted) model.problem.value = describe(error);
      });
    return () => abort.abort();
    // The status alone does not tell of a prompt that waits, or of a whole turn between two updates of the view.
  }, [wanted, status, model.recorded.value]);
  useLayoutEffect(() => {
    if (log.current && isAtEnd.current) log.current.scrollTop = log.current.scrollHeight;
  }, [found]);
  useEffect(() => {
    const onEnd = (event: Event) => {
      const isKey = event instanceof CustomEvent && event.detail === "focus";
      if (isKey) [...(log.current?.querySelectorAll<HTMLElement>("[data-message]") ?? [])].at(-1)?.focus();
      else {
        // A prompt was sent.
        leaveRecord();
        model.scrollTo.value = null;
        logFilter.value = "";
      }
    };
    document.addEventListener("aish:end", onEnd);
    return () => document.removeEventListener("aish:end", onEnd);
  }, []);
  const placed = (place: string) => (found?.items ?? []).filter((item) => model.placeOf(item) === place);
  const label = (FILTERS[filter]?.label ?? "").toLowerCase();
  return (
    <div class="log-frame">
      <div class="log" ref={log} tabIndex={-1}>
        <div class="log-inner">
          <p class="edge" role="status">
            {!found ? "Searching…" : countWords(label, found, before !== undefined)}
          </p>
          {found?.before !== undefined && (
            <button type="button" onClick={() => setBefore(found.before)}>
              Show earlier
            </button>
          )}
          {placed("within").map((item) => <MessageView key={item.key} item={item} session={model.id} target={null} />)}
          {placed("end").map((item) => <Waiting key={item.key} item={item} session={model.id} hasBegun={item.messageId === answered} />)}
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
