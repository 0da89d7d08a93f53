import { render } from "preact";
import "./style/app.css";
import { type PageTicket, bearer, signIn, takeTicket } from "./state/auth";
import { pair } from "./state/pairing";
import { route, watchAddress } from "./state/route";
import { dropPrepared, prepareSession } from "./state/session";
import { watchSessions } from "./state/sessions";
import { App } from "./views/App";

const ticket = takeTicket();
watchAddress();
watchSessions();

async function use(ticket: PageTicket | null) {
  if (ticket?.kind === "p") await pair(ticket.value);
  await signIn(ticket?.kind === "t" ? ticket.value : null);
}

void use(ticket);

// `aish-helper web` may open the ticket's address in a tab that shows the page already.
window.addEventListener("hashchange", () => {
  const next = takeTicket();
  if (next) void use(next);
});

async function show() {
  const { value } = route;
  if (bearer.value && !ticket && value.view === "session") await prepareSession(value);
  const root = document.getElementById("app");
  if (root) render(<App />, root);
  dropPrepared();
}

void show();
