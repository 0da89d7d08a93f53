// Times, durations, sizes and costs in words.

const DAY_MS = 86_400_000;
const clock = new Intl.DateTimeFormat(undefined, { hour: "2-digit", minute: "2-digit" });
const day = new Intl.DateTimeFormat(undefined, { day: "numeric", month: "short" });
const full = new Intl.DateTimeFormat(undefined, { dateStyle: "medium", timeStyle: "medium" });
const count = new Intl.NumberFormat("en");

/** A time of day today, otherwise the day. */
export function shortTime(ms: number, now = Date.now()): string {
  const date = new Date(ms);
  const isToday = now - ms < DAY_MS && new Date(now).getDate() === date.getDate();
  return isToday ? clock.format(date) : day.format(date);
}

export const fullTime = (ms: number) => full.format(new Date(ms));
export const number = (value: number) => count.format(value);

export function duration(ms: number): string {
  if (Math.round(ms) < 1000) return `${Math.round(ms)} ms`;
  const tenths = (ms / 1000).toFixed(1);
  if (Number(tenths) < 60) return `${tenths} s`;
  const seconds = Math.round(ms / 1000);
  return `${Math.floor(seconds / 60)} min ${seconds % 60} s`;
}

/** The command that continues a session in the terminal. */
export const attachCommand = (id: string) => `llm --attach ${id.slice(-8)}`;

/** A position in a recording, such as 1:05. */
export function clockTime(ms: number): string {
  const seconds = Math.floor(ms / 1000);
  const [hours, minutes] = [Math.floor(seconds / 3600), Math.floor(seconds / 60) % 60];
  const two = (value: number) => String(value).padStart(2, "0");
  return `${hours ? `${hours}:${two(minutes)}` : minutes}:${two(seconds % 60)}`;
}

export function bytes(size: number): string {
  if (size < 1024) return `${size} bytes`;
  if (size < 1024 * 1024) return `${Math.round(size / 1024)} KB`;
  return `${(size / 1024 / 1024).toFixed(1)} MB`;
}

export function cost(dollars: number): string {
  const digits = dollars >= 1 ? 2 : 4;
  return `$${dollars.toFixed(digits)}`;
}

export const plural = (n: number, word: string) => `${number(n)} ${word}${n === 1 ? "" : "s"}`;

const encoder = new TextEncoder();
/** Length of a text in UTF-8. */
export const byteLength = (text: string) => encoder.encode(text).length;
