import { useEffect, useLayoutEffect, useRef } from "preact/hooks";
import { announcements, note } from "../state/announce";
import { access } from "../state/auth";
import { code } from "../state/pairing";
import { type Route, route, sessionAddress } from "../state/route";
import { refreshSessions } from "../state/sessions";
import { isHelpOpen, watchKeys } from "../state/keys";
import { visible } from "../text/visible";
import { Activity } from "./Activity";
import { Home, Unknown } from "./pages";
import { KeysDialog } from "./KeysDialog";
import { Pairing } from "./Pairing";
import { SessionListView } from "./SessionList";
import { SessionPage } from "./SessionPage";
import { Shares } from "./Shares";
import { SignIn } from "./SignIn";

export function App() {
  useEffect(watchKeys, []);
  useEffect(() => {
    if (access.value === "ready") void refreshSessions();
  }, [access.value]);
  return (
    <>
      {code.value ? <Pairing /> : access.value === "ready" ? <Signed /> : access.value === "missing" && <SignIn />}
      {/* Only what is added is told, and a text that stays as it is would not be told again. */}
      <div class="off-screen" role="status" aria-live="polite" aria-atomic="false">
        {announcements.value.map(({ id, text }) => (
          <p key={id}>{visible(text)}</p>
        ))}
      </div>
      {note.value && (
        <div class={note.value.isError ? "toast error" : "toast"} role={note.value.isError ? "alert" : "status"}>
          {visible(note.value.text)}
        </div>
      )}
      {isHelpOpen.value && <KeysDialog />}
    </>
  );
}

/** Keeps the focus in the page when the view changes: with what had it, the next key would lose its meaning. */
function useKeptFocus(current: Route) {
  const shown = useRef(current);
  useLayoutEffect(() => {
    const before = shown.current;
    shown.current = current;
    const focused = document.activeElement;
    if (before === current || (focused && focused !== document.body && focused.checkVisibility())) return;
    const link = before.view === "session" && document.querySelector<HTMLElement>(`.sessions a[href^="${sessionAddress(before.id)}"]`);
    (link && link.checkVisibility() ? link : document.getElementById("content"))?.focus();
  }, [current]);
}

function Signed() {
  const current = route.value;
  useKeptFocus(current);
  return (
    <div class={`layout view-${current.view}`}>
      <SessionListView />
      <main class="content" id="content" tabIndex={-1}>
        {current.view === "session" && <SessionPage key={current.id} address={current} />}
        {current.view === "home" && <Home />}
        {current.view === "activity" && <Activity />}
        {current.view === "shares" && <Shares />}
        {current.view === "unknown" && <Unknown />}
      </main>
    </div>
  );
}
