import type { SessionView } from "../api/types";
import { route, sessionAddress } from "../state/route";
import {
  createSession, hasMore, isCreating, isListLoaded, listFilter, listProblem, openFirst, search, setFilter, setSearch, showMore, shownSessions,
} from "../state/sessions";
import { isComposing, isHelpOpen } from "../state/keys";
import { plural, shortTime } from "../text/format";
import { visible } from "../text/visible";

export const STATE_WORDS = { idle: "", running: "answering", waiting: "question open" } as const;

export function SessionListView() {
  return (
    <nav class="sidebar" aria-label="Sessions">
      <div class="sidebar-head">
        <a class="brand" href="/">
          aish
        </a>
        <button type="button" class="primary" onClick={createSession}>
          {isCreating.value ? "New session…" : "New session"}
        </button>
      </div>
      <div class="search">
        <label class="off-screen" for="search">
          Search all sessions
        </label>
        <input
          id="search"
          type="search"
          placeholder="Search all sessions"
          maxLength={200}
          autocomplete="off"
          value={search.value}
          onInput={(event) => setSearch(event.currentTarget.value)}
          onKeyDown={(event) => {
            if (event.key === "Enter" && !isComposing(event)) void openFirst();
          }}
        />
        <select
          aria-label="Which sessions"
          value={listFilter.value}
          onChange={(event) => setFilter(event.currentTarget.value as typeof listFilter.value)}
        >
          <option value="">All sessions</option>
          <option value="shared">Shared</option>
          <option value="waiting">Question open</option>
          <option value="running">Answering</option>
        </select>
      </div>
      <List />
      <div class="sidebar-foot">
        <a href="/activity">Activity</a>
        <a href="/shares">Shares</a>
        <button
          type="button"
          class="link"
          onClick={() => {
            isHelpOpen.value = true;
          }}
        >
          Keys
        </button>
      </div>
    </nav>
  );
}

function List() {
  const problem = listProblem.value;
  const current = route.value.view === "session" ? route.value.id : null;
  return (
    <div class="sessions">
      {problem && (
        <p class="problem">
          {visible(problem.message)}
          {problem.hint && `: ${visible(problem.hint)}`}
        </p>
      )}
      {isListLoaded.value && shownSessions.value.length === 0 && (
        <p class="quiet">
          {listFilter.value ? "No session matches the filter." : search.value.trim() ? "No session has these words." : "There are no sessions yet."}
        </p>
      )}
      <ul>
        {shownSessions.value.map((session) => (
          <Entry key={session.id} session={session} isCurrent={session.id === current} />
        ))}
      </ul>
      {hasMore.value && (
        <button type="button" class="more" onClick={showMore}>
          Show more
        </button>
      )}
    </div>
  );
}

function Entry({ session, isCurrent }: { session: SessionView; isCurrent: boolean }) {
  return (
    <li>
      <a href={sessionAddress(session.id, session.excerpt_record_id)} aria-current={isCurrent ? "page" : undefined}>
        <span class="session-title" title={visible(session.title)}>{visible(session.title) || "New session"}</span>
        <span class="session-facts">
          {session.status !== "idle" && <span class={`state ${session.status}`}>{STATE_WORDS[session.status]}</span>}
          {shortTime(session.updated_ms)} · {plural(session.prompts, "prompt")}
          {session.share_state === "shared" && " · shared"}
        </span>
        {session.excerpt && <span class="excerpt">{visible(session.excerpt)}</span>}
      </a>
    </li>
  );
}
