// The player of recordings, in a sandboxed frame without an origin: it can load nothing, and gets the recording from the page.

import { type Player, create } from "asciinema-player";
import { clockTime as clock } from "../text/format";
import { type Cast, readCast } from "./cast";
import { type FromFrame, readLoad, readToFrame } from "./messages";

/** Time between two updates of the position, in milliseconds. */
const TICK_MS = 200;
const SEEK_MS = 5000;
/** Difference of two times that counts as none: the list of commands has whole milliseconds. */
const SAME_MS = 2;
/** Time after its start for which a command counts as being at it, in milliseconds. */
const START_MS = 500;
/** Sizes of the font, in pixels. A terminal that is too large for the smallest one is scrolled. */
const SMALLEST_FONT = 8;
const LARGEST_FONT = 18;
/** Height of a line and width of the border of the terminal, in sizes of the font. */
const LINE = 4 / 3;
const BORDER = 1.5;
/** Distance that Shift with an arrow scrolls, in pixels. */
const SCROLL_PX = 60;

const byId = <T extends HTMLElement>(id: string) => document.getElementById(id) as T;
const terminal = byId("terminal");
const controls = byId("controls");
const toggle = byId<HTMLButtonElement>("toggle");
const position = byId<HTMLInputElement>("position");
const time = byId("time");

addEventListener("message", function load(event) {
  const wanted = event.source === parent ? readLoad(event.data) : null;
  const port = event.ports[0];
  if (!wanted || !port) return;
  removeEventListener("message", load);
  const post = (message: FromFrame) => port.postMessage(message);
  try {
    const cast = readCast(new TextDecoder().decode(wanted.cast), wanted.idleMs);
    // A blank screen says less than that of the first command.
    new Replay(cast, port, post).show(wanted.startMs ?? cast.timeline.toRecording(cast.markers[0] ?? 0));
  } catch (error) {
    post({ type: "error", text: words(error) });
  }
});
parent.postMessage({ type: "ready" }, "*");

const words = (error: unknown) => (error instanceof Error ? error.message : String(error));

class Replay {
  private player: Player | null = null;
  private isPlaying = false;
  private timer = 0;
  /** The last row with text that was brought into view. */
  private lastRow = 0;
  /** Length in the time of the player. */
  private readonly length: number;

  constructor(
    private readonly cast: Cast,
    port: MessagePort,
    private readonly post: (message: FromFrame) => void,
  ) {
    this.length = cast.events.at(-1)?.[0] ?? 0;
    position.max = String(this.length);
    controls.hidden = false;
    toggle.onclick = () => this.toggle();
    position.oninput = () => this.seek(position.valueAsNumber);
    addEventListener("keydown", (event) => this.press(event), true);
    new ResizeObserver(() => this.fit()).observe(terminal);
    new MutationObserver(() => this.follow()).observe(terminal, { childList: true, subtree: true });
    matchMedia("(prefers-color-scheme: dark)").onchange = () => this.rebuild();
    port.onmessage = (event) => {
      const message = readToFrame(event.data);
      if (message?.type === "seek") this.seek(this.placeOf(message.ms));
      if (message?.type === "play") this.run((player) => player.play());
      if (message?.type === "pause") this.run((player) => player.pause());
    };
  }

  /** Makes the player and shows the screen at a time of the recording. */
  show(startMs: number) {
    const { cols, rows, events } = this.cast;
    const source = { data: [], parser: () => ({ cols, rows, events }) };
    // Not the player's poster: output before it is missing on the screen after a jump forward.
    const player = create(source, terminal, { cols, rows, controls: false, fit: false, theme: "aish", cursorMode: "steady" });
    this.player = player;
    // The region around it has the focus and the keys.
    terminal.querySelector("pre")?.removeAttribute("tabindex");
    const playing = (isPlaying: boolean) => () => {
      if (this.player === player) this.setPlaying(isPlaying);
    };
    player.addEventListener("playing", playing(true));
    player.addEventListener("pause", playing(false));
    player.addEventListener("ended", playing(false));
    this.fit();
    // Waits until the recording is drawn, and reports failures.
    player.seek(this.placeOf(startMs) / 1000).then(
      () => {
        this.update();
        this.post({ type: "shown" });
      },
      (error) => this.fail(player, error),
    );
  }

  /** A time of the recording in the player. At the start of a command it is exactly that, after the prompt and the command line. */
  private placeOf(ms: number): number {
    const { markers, timeline } = this.cast;
    const at = timeline.toPlayer(ms);
    return markers.find((marker) => marker >= at && marker < at + SAME_MS) ?? at;
  }

  /** The player reads the colours when it is made. */
  private rebuild() {
    const { player } = this;
    if (!player) return;
    const at = this.cast.timeline.toRecording(player.getCurrentTime() * 1000);
    const wasPlaying = this.isPlaying;
    this.player = null;
    this.setPlaying(false);
    player.dispose();
    this.show(at);
    if (wasPlaying) this.run((next) => next.play());
  }

  private fail(player: Player, error: unknown) {
    // Requests to a player that is gone fail too.
    if (player === this.player) this.post({ type: "error", text: words(error) });
  }

  private run(action: (player: Player) => Promise<unknown>) {
    const { player } = this;
    if (player) action(player).catch((error) => this.fail(player, error));
  }

  private toggle() {
    this.run((player) => (this.isPlaying ? player.pause() : player.play()));
  }

  private seek(ms: number) {
    const wanted = Math.min(Math.max(ms, 0), this.length);
    this.run(async (player) => {
      await player.seek(wanted / 1000);
      this.update();
    });
  }

  private setPlaying(isPlaying: boolean) {
    this.isPlaying = isPlaying;
    toggle.textContent = isPlaying ? "Pause" : "Play";
    clearInterval(this.timer);
    if (isPlaying) this.timer = window.setInterval(() => this.update(), TICK_MS);
    this.update();
  }

  private update() {
    if (!this.player) return;
    const shown = this.player.getCurrentTime() * 1000;
    const { timeline, durationMs } = this.cast;
    const ms = Math.min(timeline.toRecording(shown), durationMs);
    position.value = String(shown);
    position.setAttribute("aria-valuetext", `${clock(ms)} of ${clock(durationMs)}`);
    time.textContent = `${clock(ms)} / ${clock(durationMs)}`;
    this.post({ type: "time", ms, isPlaying: this.isPlaying });
  }

  /** Chooses the font with which the terminal fits. */
  private fit() {
    const { maxCols: cols, maxRows: rows } = this.cast;
    const sample = document.createElement("span");
    sample.className = "ap-default-term-ff";
    sample.style.cssText = "position:absolute;visibility:hidden;font:100px var(--term-font-family)";
    sample.textContent = "0";
    document.body.append(sample);
    const wide = terminal.clientWidth / (cols * (sample.getBoundingClientRect().width / 100) + BORDER);
    sample.remove();
    const font = Math.min(wide, terminal.clientHeight / (rows * LINE + BORDER), LARGEST_FONT);
    terminal.style.setProperty("--font", `${Math.max(font, SMALLEST_FONT)}px`);
  }

  /** Keeps the last row with text in view, if the terminal is higher than its region. */
  private follow() {
    if (terminal.scrollHeight <= terminal.clientHeight) return;
    const rows = [...terminal.querySelectorAll<HTMLElement>(".ap-line")];
    const last = Math.max(0, rows.findLastIndex((row) => row.textContent?.trim()));
    if (last === this.lastRow) return;
    this.lastRow = last;
    const view = terminal.getBoundingClientRect();
    const row = rows[last]?.getBoundingClientRect();
    if (!row) return;
    if (row.bottom > view.bottom) terminal.scrollTop += row.bottom - view.bottom + row.height;
    else if (row.top < view.top) terminal.scrollTop += row.top - view.top - row.height;
  }

  /** The start of the command, or at its start that of the one before. */
  private previous(at: number): number {
    const { markers } = this.cast;
    const current = markers.findLastIndex((marker) => marker <= at + SAME_MS);
    const start = markers[current] ?? 0;
    return at - start > START_MS ? start : (markers[current - 1] ?? 0);
  }

  /** The player's own keys would open its help and make the frame full. */
  private press(event: KeyboardEvent) {
    event.stopPropagation();
    if (event.ctrlKey || event.altKey || event.metaKey) return;
    const { key, target } = event;
    if (key === "Escape") return this.post({ type: "close" });
    if (key === " " && target === toggle) return;
    const at = (this.player?.getCurrentTime() ?? 0) * 1000;
    const step = key === "ArrowLeft" ? -1 : key === "ArrowRight" ? 1 : 0;
    if (key === " ") this.toggle();
    else if (step && event.shiftKey) terminal.scrollLeft += step * SCROLL_PX;
    else if (step) this.seek(at + step * SEEK_MS);
    else if (key === "[") this.seek(this.previous(at));
    else if (key === "]") this.seek(this.cast.markers.find((marker) => marker > at + SAME_MS) ?? this.length);
    else if (/^[0-9]$/.test(key)) this.seek((Number(key) / 10) * this.length);
    else return;
    event.preventDefault();
  }
}
