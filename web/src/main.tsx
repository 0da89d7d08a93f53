import { render } from "preact";
import "./style/app.css";
import { signIn, takeTicket } from "./state/auth";
import { watchAddress } from "./state/route";
import { watchSessions } from "./state/sessions";
import { App } from "./views/App";

const ticket = takeTicket();
watchAddress();
watchSessions();
void signIn(ticket);

// `aish-helper web` may open the ticket's address in a tab that shows the page already.
window.addEventListener("hashchange", () => {
  const next = takeTicket();
  if (next) void signIn(next);
});

const root = document.getElementById("app");
if (root) render(<App />, root);
