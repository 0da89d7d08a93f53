import { useEffect, useState } from "preact/hooks";
import { describe } from "../api/client";
import type { ShareView } from "../api/types";
import { showNote } from "../state/announce";
import { sessionAddress } from "../state/route";
import { followSessions, sessions } from "../state/sessions";
import { loadShares, removeShares } from "../state/shares";
import { visible } from "../text/visible";
import { ProblemWords, ShareLink, removeWords } from "./Share";
import { useTitle } from "./title";

/** Sessions that are shown at most. */
const LIMIT = 100;

/** All shares, by session: those of a session are removed together. */
export function Shares() {
  const [groups, setGroups] = useState<ShareView[][] | null>(null);
  const [problem, setProblem] = useState<{ message: string; hint?: string } | null>(null);
  useTitle("Shares");
  useEffect(followSessions, []);
  // The list of sessions is read again periodically, and shares may have changed elsewhere.
  const list = sessions.value;
  useEffect(() => {
    const abort = new AbortController();
    loadShares(abort.signal)
      .then((shares) => setGroups(bySession(shares)))
      .catch((error) => {
        if (!abort.signal.aborted) setProblem(describe(error));
      });
    return () => abort.abort();
  }, [list]);
  const remove = async (session: string) => {
    setProblem(null);
    try {
      await removeShares(session);
      setGroups((all) => all?.filter(([share]) => share?.session_id !== session) ?? null);
      showNote("The session is no longer shared.");
      // The button that had the focus is gone.
      document.querySelector<HTMLElement>(".listing h1")?.focus();
    } catch (error) {
      setProblem(describe(error));
    }
  };
  return (
    <div class="listing">
      <header class="bar">
        <a class="back" href="/">
          Sessions
        </a>
        <h1 tabIndex={-1}>Shares</h1>
      </header>
      {problem && (
        <div class="listing-problem">
          <ProblemWords problem={problem} />
        </div>
      )}
      {groups?.length === 0 && <p class="quiet">No session is shared.</p>}
      {!!groups?.length && (
        <ul class="entries">
          {groups.slice(0, LIMIT).map((shares) => (
            <SharedSession key={shares[0]?.session_id} shares={shares} onRemove={remove} />
          ))}
        </ul>
      )}
      {groups && groups.length > LIMIT && (
        <p class="quiet">There are more. In a terminal: aish-helper session shares.</p>
      )}
    </div>
  );
}

function bySession(shares: ShareView[]): ShareView[][] {
  const groups = new Map<string, ShareView[]>();
  for (const share of shares) groups.set(share.session_id, [...(groups.get(share.session_id) ?? []), share]);
  return [...groups.values()];
}

function SharedSession({ shares, onRemove }: { shares: ShareView[]; onRemove: (session: string) => void }) {
  const [newest] = shares;
  if (!newest) return null;
  const title = visible(newest.title) || "New session";
  return (
    <li class="shared-session">
      <a class="session-title" href={sessionAddress(newest.session_id)}>
        {title}
      </a>
      <ul class="share-links">
        {shares.map((share) => (
          <li key={share.id}>
            <ShareLink share={share} />
          </li>
        ))}
      </ul>
      <button
        type="button"
        class="small"
        aria-label={`${removeWords(shares.length)} of ${title}`}
        onClick={() => onRemove(newest.session_id)}
      >
        {removeWords(shares.length)}
      </button>
    </li>
  );
}
