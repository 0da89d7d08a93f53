// Maps the address to a view.

import { signal } from "@preact/signals";

export type SessionRoute = { view: "session"; id: string; record?: string };

export type Route =
  | { view: "home" }
  | SessionRoute
  | { view: "activity" }
  | { view: "shares" }
  | { view: "unknown" };

export function parseRoute(path: string): Route {
  const parts = path.split("/").filter(Boolean);
  const id = "([0-9A-Za-z-]+)";
  if (parts.length === 0) return { view: "home" };
  const session = new RegExp(`^/s/${id}(?:/r/${id})?/?$`).exec(path);
  if (session?.[1]) return { view: "session", id: session[1], record: session[2] };
  if (path === "/activity") return { view: "activity" };
  if (path === "/shares") return { view: "shares" };
  return { view: "unknown" };
}

export const route = signal<Route>(parseRoute(location.pathname));

export function go(path: string, replace = false) {
  if (path !== location.pathname) {
    if (replace) history.replaceState(null, "", path);
    else history.pushState(null, "", path);
  }
  route.value = parseRoute(path);
}

export const sessionAddress = (id: string, record?: string) => `/s/${id}${record ? `/r/${record}` : ""}`;

/** Leaves the record that the address names, for the session. Returns whether it names one. */
export function leaveRecord(): boolean {
  const current = route.peek();
  if (current.view !== "session" || !current.record) return false;
  go(sessionAddress(current.id));
  return true;
}

/** Follows the browser's buttons, and links of the page itself without loading it again. */
export function watchAddress() {
  window.addEventListener("popstate", () => {
    route.value = parseRoute(location.pathname);
  });
  document.addEventListener("click", (event) => {
    if (event.defaultPrevented || event.button !== 0) return;
    if (event.metaKey || event.ctrlKey || event.shiftKey || event.altKey) return;
    const link = event.target instanceof Element ? event.target.closest("a") : null;
    if (!link || link.target || link.origin !== location.origin) return;
    if (link.hash && link.pathname === location.pathname) return;
    if (parseRoute(link.pathname).view === "unknown") return;
    event.preventDefault();
    go(link.pathname);
  });
}
