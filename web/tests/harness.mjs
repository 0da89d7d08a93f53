// Starts the dependencies of the tests: a provider of answers, a daemon with its own home, and a browser.
//
// AISH_HELPER is the path of the program. With AISH_PAGE_PROXY=1 the page comes from dist/ through tests/server.mjs.

import { execFile, spawn } from "node:child_process";
import { mkdirSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { createServer } from "node:net";
import { tmpdir } from "node:os";
import { dirname, join } from "node:path";
import { fileURLToPath } from "node:url";
import { promisify } from "node:util";
import { chromium } from "playwright-core";
import { startProvider } from "./provider.mjs";
import { startProxy } from "./server.mjs";

export const here = dirname(fileURLToPath(import.meta.url));
export const helper = process.env.AISH_HELPER;
if (!helper) throw new Error("AISH_HELPER must be the path of aish-helper");

const run = promisify(execFile);
/** Time for anything that is awaited, in milliseconds. */
const LIMIT_MS = 60_000;

/** A daemon with its own home. */
export class Daemon {
  static async start({ journal } = {}) {
    const daemon = new Daemon();
    daemon.provider = await startProvider();
    daemon.home = mkdtempSync(join(tmpdir(), "aish-web-"));
    daemon.port = await freePort();
    mkdirSync(join(daemon.home, "config"), { recursive: true });
    writeFileSync(join(daemon.home, "config/config.toml"), daemon.config());
    try {
      await daemon.launch();
      if (journal) await daemon.addJournal(journal);
    } catch (error) {
      await daemon.stop();
      throw error;
    }
    if (process.env.AISH_PAGE_PROXY === "1") daemon.proxy = await startProxy(daemon.port);
    return daemon;
  }

  config() {
    return `default_model = "local"

[models.local]
base_url = "http://127.0.0.1:${this.provider.port}/v1"
model = "m"

[models.other]
base_url = "http://127.0.0.1:${this.provider.port}/v1"
model = "m2"

[mcp.servers.notes]
command = ${JSON.stringify(process.execPath)}
args = [${JSON.stringify(join(here, "mcp-server.mjs"))}]

[mcp.auto_approve]
"notes.read_log" = true

[server]
enabled = true
port = ${this.port}
`;
  }

  get environment() {
    return { PATH: process.env.PATH, HOME: this.home, AISH_HOME: this.home, LANG: "C.UTF-8" };
  }

  async launch() {
    this.process = spawn(helper, ["daemon", "--foreground"], { env: this.environment, stdio: "ignore" });
    await until(async () => (await fetch(`http://127.0.0.1:${this.port}/health`)).ok);
  }

  /**
   * Adds files to the journal while the daemon is stopped. Not before its first start: in a home with a journal, a
   * configuration that it has not seen counts as a change that the user must approve.
   */
  async addJournal(files) {
    await this.kill();
    for (const [name, text] of Object.entries(files)) {
      writeFileSync(join(this.home, "data/journal", name), text, { mode: 0o600 });
    }
    await this.launch();
  }

  /** Ends the daemon as a crash would. */
  async kill() {
    const ended = new Promise((resolve) => this.process.once("exit", resolve));
    this.process.kill("SIGKILL");
    await ended;
  }

  async command(...args) {
    const { stdout } = await run(helper, args, { env: this.environment, timeout: LIMIT_MS });
    return stdout;
  }

  /** The address that `aish-helper web` opens, on the port that serves the page. */
  async ticketAddress() {
    const address = new URL((await this.command("web", "--print")).trim().split("\n").at(-1));
    address.port = String(this.pagePort);
    return address.href;
  }

  get pagePort() {
    return this.proxy?.port ?? this.port;
  }

  address(path) {
    return `http://127.0.0.1:${this.pagePort}${path}`;
  }

  /** Sends a request with the token of the daemon. */
  async api(method, path, body) {
    this.token ??= (await this.command("serve", "token", "show")).trim();
    const response = await fetch(`http://127.0.0.1:${this.port}${path}`, {
      method,
      headers: { authorization: `Bearer ${this.token}`, "content-type": "application/json" },
      body: body && JSON.stringify(body),
    });
    const text = await response.text();
    if (!response.ok) throw new Error(`${method} ${path}: ${response.status} ${text}`);
    return text ? JSON.parse(text) : null;
  }

  async newSession(title) {
    return (await this.api("POST", "/v1/sessions", { title })).id;
  }

  /** Sends a prompt and waits for the end of its answer. */
  async ask(session, content) {
    await this.api("POST", `/v1/sessions/${session}/messages`, { content });
    await until(async () => (await this.api("GET", `/v1/sessions/${session}`)).status === "idle");
  }

  async stop() {
    if (this.process.exitCode === null && this.process.signalCode === null) await this.kill();
    this.proxy?.server.closeAllConnections();
    this.proxy?.server.close();
    this.provider.close();
    rmSync(this.home, { recursive: true, force: true });
  }
}

/** Ends the processes that a file of tests has started. */
export async function stopAll(daemon, browser, terminal) {
  await terminal?.stop();
  await browser?.close();
  if (!daemon) return;
  daemon.provider.release();
  // The daemon that the terminal has started.
  if (terminal) await daemon.command("stop").catch(() => {});
  await daemon.stop();
}

/** Awaits a condition of something that sends no events. */
export async function until(condition, limitMs = LIMIT_MS) {
  const end = Date.now() + limitMs;
  for (;;) {
    const result = await Promise.resolve().then(condition).catch(() => false);
    if (result) return result;
    if (Date.now() > end) throw new Error(`not so after ${limitMs} ms: ${condition}`);
    await new Promise((resolve) => setTimeout(resolve, 25));
  }
}

export function freePort() {
  return new Promise((resolve, reject) => {
    const server = createServer();
    server.once("error", reject);
    server.listen(0, "127.0.0.1", () => {
      const { port } = server.address();
      server.close(() => resolve(port));
    });
  });
}

export function startBrowser(more = []) {
  return chromium.launch({
    executablePath: process.env.CHROMIUM ?? "/usr/bin/chromium",
    args: [
      "--headless", "--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run",
      "--disable-background-networking", "--disable-component-update", "--disable-sync", ...more,
    ],
  });
}

/** Opens a page that is signed in. Fails the test if the page logs an error or asks another host. */
export async function openPage(browser, daemon, path = "/", options = {}) {
  const context = await browser.newContext({ viewport: { width: 1100, height: 800 }, ...options });
  const page = await context.newPage();
  page.setDefaultTimeout(LIMIT_MS);
  page.problems = [];
  page.on("pageerror", (error) => page.problems.push(`error: ${error.message}`));
  page.on("console", (message) => {
    // A failed connection is what some tests are about.
    const isNetwork = message.text().startsWith("Failed to load resource");
    if (message.type() === "error" && !isNetwork) page.problems.push(message.text());
  });
  page.on("request", (request) => {
    if (new URL(request.url()).host !== `127.0.0.1:${daemon.pagePort}`) page.problems.push(`request to ${request.url()}`);
  });
  page.on("dialog", (dialog) => {
    page.problems.push(`dialog: ${dialog.message()}`);
    void dialog.dismiss();
  });
  const address = new URL(await daemon.ticketAddress());
  await page.goto(daemon.address(path) + address.hash);
  await page.locator(".layout").waitFor();
  return page;
}

const axeSource = () => readFileSync(join(here, "../node_modules/axe-core/axe.min.js"), "utf8");

/** Opens a new session in a separate page, and waits until it is live. */
export async function openLiveSession(browser, daemon, title, options) {
  const id = await daemon.newSession(title);
  const page = await openPage(browser, daemon, `/s/${id}`, options);
  await page.getByText("live", { exact: true }).waitFor();
  return { id, page };
}

/** Sends a prompt from the page. */
export async function sendPrompt(page, words) {
  await page.locator("#prompt").fill(words);
  await page.keyboard.press("Enter");
}

/** Returns what axe finds in the page. */
export async function axeViolations(page) {
  // Scripts injected by the test are not subject to the page's policy.
  await page.evaluate(axeSource());
  const result = await page.evaluate(() => window.axe.run(document));
  return result.violations.map(({ id, nodes }) => `${id}: ${nodes.map((node) => node.html.slice(0, 120)).join(" | ")}`);
}
