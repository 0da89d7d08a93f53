// A zsh with the plugin in a separate tmux.

import { execFile } from "node:child_process";
import { mkdirSync, symlinkSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { promisify } from "node:util";
import { helper, here, until } from "./harness.mjs";

const run = promisify(execFile);
const plugin = join(here, "../../zsh/aish.plugin.zsh");
const COMMAND_MS = 10_000;
/** Time after a key for what it causes, in milliseconds, and how often the key is pressed at most. */
const PRESS_MS = 1500;
const PRESSES = 8;

export class Terminal {
  /** Starts a terminal of 100 columns whose `llm` uses the daemon. */
  static async start(daemon) {
    const terminal = new Terminal();
    const programs = join(daemon.home, "bin");
    mkdirSync(programs);
    symlinkSync(helper, join(programs, "aish-helper"));
    writeFileSync(join(daemon.home, ".zshrc"), `PROMPT='ready> '\nsource ${JSON.stringify(plugin)}\n`);
    terminal.environment = {
      ...daemon.environment,
      PATH: `${programs}:${daemon.environment.PATH}`,
      ZDOTDIR: daemon.home,
      TMUX_TMPDIR: daemon.home,
      TERM: "xterm-256color",
    };
    terminal.socket = `aish-web-${process.pid}`;
    await terminal.tmux("new-session", "-d", "-x", "100", "-y", "30", "zsh", "-d", "-i");
    await terminal.shows("ready>");
    return terminal;
  }

  async tmux(...args) {
    const all = ["-L", this.socket, "-f", "/dev/null", ...args];
    const { stdout } = await run("tmux", all, { env: this.environment, timeout: COMMAND_MS });
    return stdout;
  }

  /** Types a line. */
  async line(text) {
    await this.tmux("send-keys", "-l", text);
    await this.key("Enter");
  }

  key(name) {
    return this.tmux("send-keys", name);
  }

  /** What is on the screen and above it, with one blank for each line end: a line may be broken anywhere. */
  async text() {
    return (await this.tmux("capture-pane", "-p", "-S", "-")).replace(/\s+/g, " ");
  }

  async shows(words, limitMs) {
    await until(async () => (await this.text()).includes(words), limitMs).catch(async () => {
      throw new Error(`the terminal does not show “${words}”:\n${(await this.text()).trim().slice(-3000)}`);
    });
  }

  /**
   * Presses a key until the terminal shows the words. A question ignores keys that come too early, and those that come soon
   * after one that it ignored.
   */
  async pressUntil(name, words) {
    for (let n = 1; n < PRESSES; n++) {
      await this.key(name);
      if (await this.shows(words, PRESS_MS).then(() => true, () => false)) return;
    }
    await this.key(name);
    await this.shows(words);
  }

  async stop() {
    await this.tmux("kill-server");
  }
}
