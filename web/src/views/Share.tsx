import type { ComponentChildren } from "preact";
import { useEffect, useRef, useState } from "preact/hooks";
import { ApiProblem, describe } from "../api/client";
import type { SharePreview, ShareView } from "../api/types";
import { showNote } from "../state/announce";
import type { SessionModel } from "../state/session";
import { type ShareOptions, loadShares, previewShare, publishShare, reachWords, removeShares, shareAddress } from "../state/shares";
import { duration, fullTime, plural } from "../text/format";
import { visible } from "../text/visible";
import { CopyButton } from "./CopyButton";
import { Dialog } from "./Dialog";

interface Props {
  model: SessionModel;
  onClose: () => void;
}

type Problem = { message: string; hint?: string };

/** Shares a session after a preview, and shows the pages that it is shared as. */
export function ShareDialog({ model, onClose }: Props) {
  /** The shares of this session; null until they are known. */
  const [shares, setShares] = useState<ShareView[] | null>(null);
  const [isAgain, setAgain] = useState(false);
  const [problem, setProblem] = useState<Problem | null>(null);
  useEffect(() => {
    const abort = new AbortController();
    loadShares(abort.signal)
      .then((all) => setShares(all.filter((share) => share.session_id === model.id)))
      .catch((error) => {
        if (!abort.signal.aborted) setProblem(describe(error));
      });
    return () => abort.abort();
  }, [model]);
  const published = (share: ShareView) => {
    setShares([share, ...(shares ?? [])]);
    setAgain(false);
    model.refreshDetail();
  };
  const remove = async () => {
    setProblem(null);
    try {
      await removeShares(model.id);
      model.refreshDetail();
      onClose();
      showNote("The session is no longer shared.");
    } catch (error) {
      setProblem(describe(error));
    }
  };
  const isShared = shares !== null && shares.length > 0 && !isAgain;
  return (
    <Dialog title={isShared ? "The session is shared" : "Share the session"} onClose={onClose}>
      {problem && <ProblemWords problem={problem} />}
      {isShared && <SharedPages shares={shares} onAgain={() => setAgain(true)} onRemove={remove} />}
      {shares && !isShared && <Preview session={model.id} onPublished={published} onClose={onClose} />}
    </Dialog>
  );
}

export function ProblemWords({ problem }: { problem: Problem }) {
  return (
    <p class="problem" role="alert">
      {visible(problem.message)}
      {problem.hint && <span class="hint">: {visible(problem.hint)}</span>}
    </p>
  );
}

interface SharedPagesProps {
  shares: ShareView[];
  onAgain: () => void;
  onRemove: () => void;
}

function SharedPages({ shares, onAgain, onRemove }: SharedPagesProps) {
  const list = useRef<HTMLUListElement>(null);
  // The button that had the focus is gone after sharing.
  useEffect(() => list.current?.querySelector("a")?.focus(), []);
  return (
    <>
      <p class="quiet">
        Who knows the address can read the page.
        {shares.some((share) => share.path) && ` ${reachWords(location.hostname)}`}
        {shares.some((share) => share.is_automatic) && " The page changes with each answer, until it is removed."}
      </p>
      <ul class="share-links" ref={list}>
        {shares.map((share) => (
          <li key={share.id}>
            <ShareLink share={share} />
          </li>
        ))}
      </ul>
      <div class="dialog-actions">
        <button type="button" onClick={onAgain}>
          Share again…
        </button>
        <button type="button" class="danger" onClick={onRemove}>
          {removeWords(shares.length)}
        </button>
      </div>
    </>
  );
}

/** All shares of a session are removed together. */
export const removeWords = (pages: number) => (pages === 1 ? "Remove the page" : `Remove ${plural(pages, "page")}`);

/** The address of a share with its date, or that it was interrupted. */
export function ShareLink({ share }: { share: ShareView }) {
  const address = shareAddress(share);
  return (
    <>
      {share.is_published ? (
        <span class="share-link">
          <a href={address} target="_blank" rel="noopener noreferrer">
            {visible(address)}
          </a>
          <CopyButton text={address} of="the address" />
        </span>
      ) : (
        <span class="share-link bad">Sharing was interrupted, the page is incomplete: remove it.</span>
      )}
      <time class="quiet" dateTime={new Date(share.created_ms).toISOString()}>
        {fullTime(share.created_ms)}
      </time>
      <span class="quiet"> {visible(share.place)}</span>
    </>
  );
}

interface PreviewProps {
  session: string;
  onPublished: (share: ShareView) => void;
  onClose: () => void;
}

function Preview({ session, onPublished, onClose }: PreviewProps) {
  const [options, setOptions] = useState<ShareOptions>({ with_output: false, recordings: false });
  /** Null while a preview is being made: what is published must have been shown. */
  const [preview, setPreview] = useState<SharePreview | null>(null);
  const [problem, setProblem] = useState<Problem | null>(null);
  const [isSending, setSending] = useState(false);
  const request = useRef(0);

  const load = async () => {
    const current = ++request.current;
    setPreview(null);
    try {
      const next = await previewShare(session, options);
      if (current === request.current && next) setPreview(next);
    } catch (error) {
      if (current === request.current) setProblem(describe(error));
    }
  };
  useEffect(() => {
    setProblem(null);
    void load();
    return () => {
      request.current += 1;
    };
  }, [options]);

  const publish = async () => {
    if (!preview) return;
    setSending(true);
    setProblem(null);
    try {
      const share = await publishShare(session, options, preview.digest);
      if (share) onPublished(share);
    } catch (error) {
      setProblem(describe(error));
      if (error instanceof ApiProblem && error.status === 409) await load();
    } finally {
      setSending(false);
    }
  };

  return (
    <>
      <p>
        A page without scripts is made, which shows the prompts and answers. Who knows its address can read it.
      </p>
      <Choice name="with_output" options={options} onChange={setOptions}>
        with the output of tools and commands
      </Choice>
      <Choice name="recordings" options={options} onChange={setOptions}>
        with the recordings of the terminals
      </Choice>
      <div class="share-preview" aria-live="polite" aria-busy={!preview && !problem}>
        {preview ? <PreviewWords preview={preview} /> : !problem && <p class="quiet">The preview is being made…</p>}
      </div>
      {problem && <ProblemWords problem={problem} />}
      <div class="dialog-actions">
        <button type="button" onClick={onClose}>
          Cancel
        </button>
        <button type="button" class="primary" disabled={!preview || isSending} onClick={publish}>
          Share
        </button>
      </div>
    </>
  );
}

interface ChoiceProps {
  name: keyof ShareOptions;
  options: ShareOptions;
  onChange: (options: ShareOptions) => void;
  children: ComponentChildren;
}

function Choice({ name, options, onChange, children }: ChoiceProps) {
  return (
    <label class="check">
      <input
        type="checkbox"
        checked={options[name]}
        onChange={(event) => onChange({ ...options, [name]: event.currentTarget.checked })}
      />
      {children}
    </label>
  );
}

function recordingWords({ recordings, recordings_ms = 0 }: SharePreview): string {
  if (recordings === undefined) return "";
  if (recordings === 0) return ", no recordings";
  return `, ${plural(recordings, "recording")} (${duration(recordings_ms)})`;
}

/** How the words for a page on this server begin. */
const HERE = "on this machine";

function PreviewWords({ preview }: { preview: SharePreview }) {
  return (
    <>
      <p>
        <strong>{visible(preview.title) || "New session"}</strong>: {plural(preview.messages, "message")}
        {recordingWords(preview)}
      </p>
      {!!preview.recordings && (
        <p class="quiet">
          A recording has everything that its terminal has shown from the first to the last command of the session.
        </p>
      )}
      <p>
        The page is published {visible(preview.place)}. {preview.place.startsWith(HERE) && reachWords(location.hostname)}
      </p>
      <p>
        {preview.removed.length > 0
          ? `Left out or replaced: ${visible(preview.removed.join(", "))}.`
          : "Nothing is left out or replaced."}
      </p>
    </>
  );
}
