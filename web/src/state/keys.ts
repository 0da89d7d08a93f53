// The keys of the page.

import { signal } from "@preact/signals";
import { isReplayOpen } from "./replay";
import { createSession, endTypeAhead, typeAhead } from "./sessions";
import { go, leaveRecord, route } from "./route";

export const isHelpOpen = signal(false);
export const isOutlineOpen = signal(false);

const LETTERS = "aish.letters";

/** Whether single characters are keys. Speech input and other aids may send them by mistake. */
export const hasLetterKeys = signal(storedLetters());

function storedLetters(): boolean {
  try {
    return localStorage.getItem(LETTERS) !== "off";
  } catch {
    return true;
  }
}

export function setLetterKeys(isOn: boolean) {
  hasLetterKeys.value = isOn;
  try {
    localStorage.setItem(LETTERS, isOn ? "on" : "off");
  } catch {
    // Without storage the choice lives until the page is left.
  }
}

export const KEYS: [string, string][] = [
  ["j / k", "Next or previous message"],
  ["g g / G", "First shown message, or the last one"],
  ["Enter", "Open the tool calls of the message"],
  ["f", "Filter the messages"],
  ["c", "Write a prompt"],
  ["y / n", "Approve or deny the question that has the focus"],
  ["/", "Search all sessions"],
  ["n", "New session"],
  ["g o", "Outline of the prompts"],
  ["g r", "Replay of the terminal"],
  ["g h", "All sessions"],
  ["Esc", "Close, or leave the field"],
  ["?", "These keys"],
];

/** Time within which the second key of a pair must come, in milliseconds. */
const PAIR_MS = 1200;
let firstKey = { key: "", at: 0 };

const field = (id: string) => document.getElementById(id);
const messages = () => [...document.querySelectorAll<HTMLElement>("[data-message]")];

/** Whether a key belongs to an input method. Safari sends the Enter that ends a composition after it, with this code. */
export const isComposing = (event: KeyboardEvent) => event.isComposing || event.keyCode === 229;

function isTyping(target: EventTarget | null): boolean {
  return target instanceof HTMLElement && !!target.closest("input, textarea, select, [contenteditable]");
}

/** Moves the focus among the messages. */
function move(step: number) {
  const all = messages();
  if (all.length === 0) return;
  const current = document.activeElement?.closest<HTMLElement>("[data-message]");
  const from = current ? all.indexOf(current) : firstVisible(all) - Math.sign(step);
  const next = all[Math.min(Math.max(from + step, 0), all.length - 1)];
  focusMessage(next);
}

function firstVisible(all: HTMLElement[]): number {
  const top = document.querySelector(".log")?.getBoundingClientRect().top ?? 0;
  return Math.max(0, all.findIndex((message) => message.getBoundingClientRect().bottom > top + 8));
}

function focusMessage(message: HTMLElement | undefined) {
  message?.focus({ preventScroll: true });
  message?.scrollIntoView({ block: "nearest" });
}

function toggleCalls() {
  const message = document.activeElement;
  if (!message?.matches("[data-message]")) return false;
  const calls = [...message.querySelectorAll<HTMLDetailsElement>("details.call")];
  const isOpening = calls.some((call) => !call.open);
  calls.forEach((call) => {
    call.open = isOpening;
  });
  return calls.length > 0;
}

function escape(target: EventTarget | null) {
  endTypeAhead();
  if (isHelpOpen.value) isHelpOpen.value = false;
  else if (isOutlineOpen.value) isOutlineOpen.value = false;
  else if (target instanceof HTMLInputElement && target.type === "search" && target.value) {
    // Not every browser empties the field itself.
    target.value = "";
    target.dispatchEvent(new Event("input", { bubbles: true }));
  } else if (isTyping(target)) {
    const last = messages().at(-1);
    (target as HTMLElement).blur();
    if ((target as HTMLElement).id === "prompt") last?.focus({ preventScroll: true });
  } else if (!document.querySelector("dialog[open]") && !leaveRecord()) isReplayOpen.value = false;
}

/** Moves the focus to the search before the next key is handled: it is the first letter. */
function focusSearch() {
  const focus = () => field("search")?.focus();
  if (field("search")?.checkVisibility()) return focus();
  // A narrow page has the list of sessions in a separate view, which is drawn in a microtask.
  go("/");
  queueMicrotask(focus);
}

function press(key: string): boolean {
  const isPair = firstKey.key === "g" && Date.now() - firstKey.at < PAIR_MS;
  firstKey = { key: isPair ? "" : key, at: Date.now() };
  switch (isPair ? `g ${key}` : key) {
    case "j":
      move(1);
      return true;
    case "k":
      move(-1);
      return true;
    case "g g":
      focusMessage(messages()[0]);
      return true;
    case "G":
      document.dispatchEvent(new CustomEvent("aish:end", { detail: "focus" }));
      return true;
    case "g o":
      isOutlineOpen.value = route.value.view === "session";
      return true;
    case "g r":
      isReplayOpen.value = route.value.view === "session";
      return true;
    case "g h":
      go("/");
      return true;
    case "/":
      focusSearch();
      return true;
    case "f":
      field("log-filter")?.focus();
      return true;
    case "c":
      field("prompt")?.focus();
      return true;
    case "n":
      void createSession();
      return true;
    case "?":
      isHelpOpen.value = true;
      return true;
    case "Enter":
      return toggleCalls();
    default:
      return false;
  }
}

export function watchKeys(): () => void {
  const listener = (event: KeyboardEvent) => {
    if (event.defaultPrevented || event.ctrlKey || event.metaKey || event.altKey || isComposing(event)) return;
    if (event.key === "Escape") return escape(event.target);
    if (isTyping(event.target) || document.querySelector("dialog[open]")) return;
    if (typeAhead(event.key) || ((hasLetterKeys.value || event.key.length > 1) && press(event.key))) event.preventDefault();
  };
  document.addEventListener("keydown", listener);
  return () => document.removeEventListener("keydown", listener);
}
