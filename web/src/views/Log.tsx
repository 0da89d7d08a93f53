import { useEffect, useLayoutEffect, useRef } from "preact/hooks";
import { describe, sessionPath, write } from "../api/client";
import { showNote } from "../state/announce";
import type { SessionModel } from "../state/session";
import { type Item, type Place, afterTurns, findPlace, unanswered } from "../state/items";
import { leaveRecord } from "../state/route";
import { visible } from "../text/visible";
import { FOLD, MessageView } from "./Message";

/** Distance from the end within which the view follows it, in pixels. */
const END_PX = 32;
/** Distance from an end of the window at which more is loaded. */
const AHEAD = "400px";
/** Elements that the messages have at most, as long as there are enough of them to fill the view. */
const MAX_ELEMENTS = 1300;
const MIN_MESSAGES = 6;

/** The messages: a scrolling view of the window that the model holds. */
export function LogView({ model }: { model: SessionModel }) {
  const log = useRef<HTMLDivElement>(null);
  const top = useRef<HTMLDivElement>(null);
  const bottom = useRef<HTMLDivElement>(null);
  const anchor = useRef<{ key: string; offset: number } | null>(null);
  const hasOpened = useRef(false);
  const lastTop = useRef(0);
  const items = model.items.value;
  const named = model.target.value;
  const target = named && findPlace(items, named);

  const noteAnchor = () => {
    const view = log.current;
    if (!view) return;
    const isAtEnd = view.scrollHeight - view.scrollTop - view.clientHeight < END_PX;
    // Not being at the end is not a reason to stop: the text or the composer may have grown since the view was moved.
    if (model.hasNewer.value || view.scrollTop < lastTop.current - 1) model.isFollowing = false;
    if (isAtEnd && !model.hasNewer.value) model.isFollowing = true;
    lastTop.current = view.scrollTop;
    if (model.isFollowing) model.unseen.value = 0;
    model.isAway.value = !model.isFollowing && !isAtEnd;
    const start = view.getBoundingClientRect().top;
    const first = [...view.querySelectorAll<HTMLElement>("[data-message]")].find(
      (message) => message.getBoundingClientRect().bottom > start,
    );
    anchor.current = first ? { key: first.dataset.message ?? "", offset: first.getBoundingClientRect().top - start } : null;
  };

  const toEnd = async (takesFocus: boolean) => {
    leaveRecord();
    await model.showEnd();
    requestAnimationFrame(() => {
      const view = log.current;
      if (!view) return;
      view.scrollTop = view.scrollHeight;
      if (takesFocus) [...view.querySelectorAll<HTMLElement>("[data-message]")].at(-1)?.focus({ preventScroll: true });
      noteAnchor();
    });
  };

  // Keeps the place: at the end if the view was there, otherwise the first visible message where it was.
  useLayoutEffect(() => {
    const view = log.current;
    if (!view) return;
    if (items.length === 0) {
      // The first answer of an empty session is followed, however long it is when it is first shown.
      hasOpened.current ||= model.isLoaded.value;
      return;
    }
    const hasMovedUp = view.scrollTop < lastTop.current - 1;
    // The event of a movement may come after this change.
    if (hasMovedUp && view.scrollHeight - view.scrollTop - view.clientHeight >= END_PX) model.isFollowing = false;
    if (!hasOpened.current) {
      if (!model.isLoaded.value) return;
      hasOpened.current = true;
      const prompts = view.querySelectorAll<HTMLElement>(".message.user");
      const last = prompts[prompts.length - 1];
      if (!model.scrollTo.value) view.scrollTop = last ? last.offsetTop - 12 : view.scrollHeight;
      model.isFollowing = false;
    } else if (model.isFollowing) view.scrollTop = view.scrollHeight;
    else if (anchor.current) {
      const message = view.querySelector<HTMLElement>(`[data-message="${CSS.escape(anchor.current.key)}"]`);
      if (message) {
        const offset = message.getBoundingClientRect().top - view.getBoundingClientRect().top;
        view.scrollTop += offset - anchor.current.offset;
      }
    }
    lastTop.current = view.scrollTop;
    noteAnchor();
    if (items.length > MIN_MESSAGES && view.querySelectorAll("*").length > MAX_ELEMENTS) {
      const middle = view.scrollTop + view.clientHeight / 2;
      model.shrink(middle > view.scrollHeight / 2 ? "start" : "end");
    }
    // "Working…" and the edges have a height too: each change of it is followed before the next one.
  }, [items, model.isLoaded.value, model.status.value, model.hasOlder.value, model.hasNewer.value]);

  useEffect(() => {
    const view = log.current;
    if (!view) return;
    const more = new IntersectionObserver(
      (entries) => {
        for (const entry of entries) {
          if (!entry.isIntersecting || !hasOpened.current) continue;
          if (entry.target === top.current) void model.loadOlder();
          else void model.loadNewer();
        }
      },
      { root: view, rootMargin: `${AHEAD} 0px` },
    );
    if (top.current) more.observe(top.current);
    if (bottom.current) more.observe(bottom.current);
    const size = new ResizeObserver(() => {
      if (!model.isFollowing || !hasOpened.current) return;
      view.scrollTop = view.scrollHeight;
      lastTop.current = view.scrollTop;
    });
    // A message can grow later than the list changes: a separate signal, a folded part that is opened.
    for (const element of [view, view.firstElementChild]) if (element) size.observe(element);
    const onEnd = (event: Event) => void toEnd(event instanceof CustomEvent && event.detail === "focus");
    document.addEventListener("aish:end", onEnd);
    return () => {
      more.disconnect();
      size.disconnect();
      document.removeEventListener("aish:end", onEnd);
    };
    // A new observer reports an end that is still near, and it loads more.
  }, [items.length, items[0]?.key, model.isLoaded.value, model.loads.value]);

  const wish = model.scrollTo.value;
  useEffect(() => {
    if (!wish) return;
    const element = elementAt(log.current, wish);
    model.isFollowing = false;
    element?.scrollIntoView({ block: "start" });
    lastTop.current = log.current?.scrollTop ?? 0;
    element?.focus({ preventScroll: true });
    noteAnchor();
  }, [wish, model.isLoaded.value]);

  const isBusy = model.isBusy();
  const shown = afterTurns(items.filter((item) => model.placeOf(item) === "within"), ({ kind }) => kind);
  const waiting = items.filter((item) => model.placeOf(item) === "end");
  const isOver = model.isOver();
  const failed = unanswered(shown, isOver);
  const unseen = model.unseen.value;
  return (
    <div class="log-frame">
      <div class="log" ref={log} onScroll={noteAnchor} tabIndex={-1}>
        <div class="log-inner" role="log" aria-live="off" aria-label="Messages" aria-busy={!model.isLoaded.value}>
          {(model.hasOlder.value || model.hasNewer.value) && (
            <p class="print-only">Only the messages that the page has loaded are printed. “Copy as Markdown” has all of them.</p>
          )}
          <div class="edge" ref={top}>
            {model.hasOlder.value && "Earlier messages are loading…"}
          </div>
          {shown.map((item) => (
            <MessageView
              key={item.key}
              item={item}
              session={model.id}
              target={target?.key === item.key ? target.call : null}
              isUnanswered={failed.includes(item.key)}
              isOver={isOver && item.calls.some(({ result }) => !result)}
            />
          ))}
          {model.isLoaded.value && items.length === 0 && <p class="empty-log">Write the first prompt below.</p>}
          {isBusy && !model.hasNewer.value && <Working model={model} />}
          {!model.hasNewer.value && waiting.map((item) => <Waiting key={item.key} item={item} session={model.id} hasBegun={item.messageId === model.status.value.message_id} />)}
          <div class="edge" ref={bottom}>
            {model.hasNewer.value && "Later messages are loading…"}
          </div>
        </div>
      </div>
      {(unseen > 0 || model.hasNewer.value || (isBusy && model.isAway.value)) && (
        <button type="button" class="to-end" onClick={() => toEnd(true)}>
          {unseen > 0 ? `${unseen} new` : "To the end"} ↓
        </button>
      )}
    </div>
  );
}

function elementAt(log: HTMLElement | null, { key, call }: Place): HTMLElement | null | undefined {
  const message = log?.querySelector<HTMLElement>(`[data-message="${CSS.escape(key)}"]`);
  return call < 0 ? message : message?.querySelectorAll<HTMLElement>(".call > summary")[call];
}

/** A prompt that was accepted while another one is answered. */
export function Waiting({ item, session, hasBegun }: { item: Item; session: string; hasBegun: boolean }) {
  return (
    <article class="message waiting" data-message={item.key} aria-label="You, waiting" tabIndex={-1}>
      <div class="message-head">
        <h2>You</h2>
        <span>{hasBegun ? "sent" : "waits for the previous answer"}</span>
        {!hasBegun && <Withdraw item={item} session={session} />}
      </div>
      <div class="prompt-text">{visible(item.text.slice(0, FOLD))}</div>
    </article>
  );
}

function Withdraw({ item, session }: { item: Item; session: string }) {
  const button = useRef<HTMLButtonElement>(null);
  // The button goes, but its prompt stays: as one that is answered, or that was not.
  useLayoutEffect(() => {
    const own = button.current;
    return () => {
      if (!own || document.activeElement !== own) return;
      requestAnimationFrame(() => {
        const prompt = document.querySelector<HTMLElement>(`[data-message="${CSS.escape(item.key)}"]`);
        (prompt ?? document.getElementById("content"))?.focus({ preventScroll: true });
      });
    };
  }, []);
  const withdraw = async () => {
    try {
      await write("POST", sessionPath(session, `/cancel?message_id=${encodeURIComponent(item.messageId)}`));
      showNote("The prompt was withdrawn.");
    } catch (error) {
      showNote(`The prompt was not withdrawn: ${describe(error).message}`, true);
    }
  };
  return (
    <button type="button" ref={button} onClick={withdraw}>
      Withdraw
    </button>
  );
}

function Working({ model }: { model: SessionModel }) {
  const isWaiting = model.status.value.status === "waiting";
  if (model.live?.text && !isWaiting) return null;
  return <p class="working">{isWaiting ? "Waiting for an answer to the question" : "Working…"}</p>;
}
