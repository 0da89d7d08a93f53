import { useEffect } from "preact/hooks";
import { announcement, note } from "../state/announce";
import { access } from "../state/auth";
import { code } from "../state/pairing";
import { route } from "../state/route";
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
      <div class="off-screen" role="status" aria-live="polite">
        {/* A new element: a text that stays as it is would not be told again. */}
        <p key={announcement.value.id}>{visible(announcement.value.text)}</p>
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

function Signed() {
  const current = route.value;
  return (
    <div class={`layout view-${current.view}`}>
      <SessionListView />
      <main class="content" id="content">
        {current.view === "session" && <SessionPage key={current.id} id={current.id} record={current.record} />}
        {current.view === "home" && <Home />}
        {current.view === "activity" && <Activity />}
        {current.view === "shares" && <Shares />}
        {current.view === "unknown" && <Unknown />}
      </main>
    </div>
  );
}
