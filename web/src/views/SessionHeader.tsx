import { useEffect, useMemo, useRef, useState } from "preact/hooks";
import { describe, sessionPath, write } from "../api/client";
import type { SessionDetail } from "../api/types";
import { showNote } from "../state/announce";
import { isOutlineOpen } from "../state/keys";
import { isReplayOpen, loadRecordings, recordings } from "../state/replay";
import { go } from "../state/route";
import type { SessionModel } from "../state/session";
import { refreshSoon, sessions } from "../state/sessions";
import { SHARE_MS } from "../state/shares";
import { copyText } from "../text/clipboard";
import { sessionAsJson, sessionAsMarkdown } from "../state/export";
import { attachCommand, cost, number } from "../text/format";
import { visible } from "../text/visible";
import { ConnectionState } from "./ConnectionState";
import { Dialog } from "./Dialog";
import { FilterSelect } from "./FilteredLog";
import { ShareDialog } from "./Share";

/** Known facts about the session: its detail, or until that is there its list entry. */
export const knownSession = (model: SessionModel) => model.detail.value ?? listed(model);

const listed = (model: SessionModel) => sessions.value.find((session) => session.id === model.id);

export function SessionHeader({ model }: { model: SessionModel }) {
  const [isSharing, setSharing] = useState(false);
  const detail = model.detail.value;
  const known = knownSession(model);
  // No event reports that a session was shared elsewhere; the list is read again now and then.
  const share = listed(model)?.share_state ?? detail?.share_state;
  return (
    <header class="bar">
      <a class="back" href="/">
        Sessions
      </a>
      <div class="bar-title">
        <h1 title={known && visible(known.title)}>{known ? visible(known.title) || "New session" : "…"}</h1>
        <p class="facts">
          <ConnectionState state={model.connection.value} />
          {share === "shared" && <span class="shared">shared</span>}
          {detail && <UsageWords detail={detail} />}
          <FilterSelect />
          {detail?.cwd && <span class="cwd">{visible(detail.cwd)}</span>}
        </p>
      </div>
      <div class="bar-actions">
        <button
          type="button"
          onClick={() => {
            isOutlineOpen.value = true;
          }}
        >
          Prompts
        </button>
        <button type="button" onClick={() => setSharing(true)}>
          Share
        </button>
        <ReplayButton model={model} />
        <SessionMenu model={model} />
      </div>
      {isSharing && <ShareDialog model={model} onClose={() => setSharing(false)} />}
    </header>
  );
}

/** Time after the first messages at which the recordings are asked for, in milliseconds. */
const RECORDINGS_MS = 300;

/** Opens the replay, if there are recordings. A terminal may be recorded only later: then they are asked for after each answer. */
function ReplayButton({ model }: { model: SessionModel }) {
  const isIdle = model.status.value.status === "idle";
  const isLoaded = model.isLoaded.value;
  const hasAsked = useRef(false);
  const abort = useMemo(() => new AbortController(), []);
  useEffect(() => () => abort.abort(), []);
  useEffect(() => {
    if (!isLoaded || recordings.peek().length > 0 || (hasAsked.current && !isIdle)) return;
    const timer = setTimeout(() => {
      hasAsked.current = true;
      // The panel says what is wrong.
      loadRecordings(model.id, abort.signal).catch(() => {});
    }, RECORDINGS_MS);
    return () => clearTimeout(timer);
  }, [isLoaded, isIdle]);
  if (recordings.value.length === 0) return null;
  return (
    <button
      type="button"
      id="replay-button"
      aria-expanded={isReplayOpen.value}
      onClick={() => {
        isReplayOpen.value = !isReplayOpen.value;
      }}
    >
      Replay
    </button>
  );
}

function UsageWords({ detail }: { detail: SessionDetail }) {
  const { prompt_tokens, completion_tokens, cost: dollars, is_estimated } = detail.usage;
  if (prompt_tokens + completion_tokens === 0) return null;
  return (
    <span>
      {number(prompt_tokens)} tokens in, {number(completion_tokens)} out
      {dollars !== undefined && ` · ${cost(dollars)}${is_estimated ? " (incomplete or estimated)" : ""}`}
    </span>
  );
}

function SessionMenu({ model }: { model: SessionModel }) {
  const [dialog, setDialog] = useState<"rename" | "delete" | null>(null);
  const menu = useRef<HTMLDetailsElement>(null);
  const closeMenu = () => {
    if (menu.current) menu.current.open = false;
  };
  useEffect(() => {
    const outside = (event: Event) => {
      if (event.target instanceof Node && !menu.current?.contains(event.target)) closeMenu();
    };
    document.addEventListener("pointerdown", outside);
    return () => document.removeEventListener("pointerdown", outside);
  }, []);
  const entry = (label: string, action: () => void) => (
    <button
      type="button"
      onClick={() => {
        closeMenu();
        // The entry that has the focus is hidden now. A dialog gives the focus back to what had it before.
        menu.current?.querySelector("summary")?.focus();
        action();
      }}
    >
      {label}
    </button>
  );
  const copy = async (make: () => Promise<string>) => {
    try {
      showNote((await copyText(await make())) ? "Copied." : "The browser did not allow copying.");
    } catch (error) {
      showNote(`Not copied: ${describe(error).message}`, true);
    }
  };
  return (
    <>
      <details
        class="menu"
        ref={menu}
        onFocusOut={(event) => {
          if (event.relatedTarget instanceof Node && !menu.current?.contains(event.relatedTarget)) closeMenu();
        }}
        onKeyDown={(event) => {
          if (event.key !== "Escape") return;
          event.stopPropagation();
          closeMenu();
          menu.current?.querySelector("summary")?.focus();
        }}
      >
        <summary>More</summary>
        <div class="menu-body">
          {entry("Rename…", () => setDialog("rename"))}
          {entry("Copy as Markdown", () => copy(() => sessionAsMarkdown(model.id, model.detail.value?.title ?? "")))}
          {entry("Copy as JSON", () => copy(() => sessionAsJson(model.id)))}
          {entry("Copy the terminal command", () => copy(async () => attachCommand(model.id)))}
          {entry("Delete…", () => setDialog("delete"))}
        </div>
      </details>
      {dialog === "rename" && <Rename model={model} onClose={() => setDialog(null)} />}
      {dialog === "delete" && <Delete model={model} onClose={() => setDialog(null)} />}
    </>
  );
}

function Rename({ model, onClose }: { model: SessionModel; onClose: () => void }) {
  const [title, setTitle] = useState(model.detail.value?.title ?? "");
  const [problem, setProblem] = useState("");
  const save = async (event: Event) => {
    event.preventDefault();
    try {
      const detail = await write<SessionDetail>("PATCH", sessionPath(model.id), { title });
      if (detail) model.detail.value = detail;
      refreshSoon();
      onClose();
    } catch (error) {
      setProblem(describe(error).message);
    }
  };
  return (
    <Dialog title="Rename the session" onClose={onClose}>
      <form onSubmit={save}>
        <label for="title">Title</label>
        <input id="title" maxLength={200} value={title} onInput={(event) => setTitle(event.currentTarget.value)} />
        {problem && <p class="problem">{visible(problem)}</p>}
        <div class="dialog-actions">
          <button type="submit" class="primary">
            Save
          </button>
        </div>
      </form>
    </Dialog>
  );
}

function Delete({ model, onClose }: { model: SessionModel; onClose: () => void }) {
  const [problem, setProblem] = useState<{ message: string; hint?: string } | null>(null);
  const remove = async () => {
    try {
      // Its shares are removed with it.
      await write("DELETE", sessionPath(model.id), undefined, undefined, SHARE_MS);
      onClose();
      go("/", true);
      refreshSoon();
      showNote("The session is deleted.");
    } catch (error) {
      setProblem(describe(error));
    }
  };
  return (
    <Dialog title="Delete the session?" onClose={onClose}>
      <p>
        The session “{visible(model.detail.value?.title || "New session")}” is deleted with its prompts, answers and records. This
        cannot be taken back.
      </p>
      {problem && (
        <p class="problem">
          {visible(problem.message)}
          {problem.hint && `: ${visible(problem.hint)}`}
        </p>
      )}
      <div class="dialog-actions">
        <button type="button" onClick={onClose}>
          Keep
        </button>
        <button type="button" class="danger" onClick={remove}>
          Delete
        </button>
      </div>
    </Dialog>
  );
}
