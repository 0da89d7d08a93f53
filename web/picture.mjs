// Makes the picture of the page in ../docs/page.png: AISH_HELPER=../target/debug/aish-helper npm run picture

import { statSync, utimesSync } from "node:fs";
import { dirname, join } from "node:path";
import { fileURLToPath } from "node:url";
import { Daemon, openPage, startBrowser } from "./tests/harness.mjs";

const OUTPUT = join(dirname(fileURLToPath(import.meta.url)), "../docs/page.png");
/** Maximum size, in bytes. */
const LIMIT = 150 * 1024;
const MINUTE_MS = 60_000;

/** Writes the journal of a session, as docs/journal.md describes it. */
class Journal {
  constructor(number, title, minutesAgo) {
    this.number = number;
    this.time = Date.now() - minutesAgo * MINUTE_MS;
    this.count = 0;
    this.lines = [];
    this.session = this.uuid();
    this.add("session", { session: this.session, shell: null }, {});
    this.add("title", { title }, { session: this.session });
  }

  /** A UUIDv7 of the session's time. */
  uuid() {
    const time = this.time.toString(16).padStart(12, "0");
    const rest = [this.number, ++this.count].map((part) => part.toString(16).padStart(6, "0")).join("");
    return `${time.slice(0, 8)}-${time.slice(8)}-7000-8000-${rest}`;
  }

  add(type, fields, ids = { session: this.session, prompt: this.prompt, turn: this.turn }) {
    this.time += 700;
    this.lines.push(JSON.stringify({ v: 2, id: this.uuid(), timestamp_ms: this.time, type, ids, ...fields }));
  }

  user(prompt) {
    this.prompt = this.uuid();
    const ids = { session: this.session, prompt: this.prompt };
    this.add("user", { prompt, rendered: prompt, shell: null, cwd: "/home/ada/src/tides" }, ids);
  }

  assistant(text, usage, calls) {
    this.turn = this.uuid();
    const [prompt_tokens, completion_tokens, duration_ms] = usage;
    const finish = calls ? "tool_calls" : "stop";
    this.add("assistant", { text, calls, model: "local", finish, prompt_tokens, completion_tokens, duration_ms });
  }

  tool(call, name, text, duration_ms) {
    this.add("tool", { call, name, status: "success", text, bytes: text.length, duration_ms });
  }

  get file() {
    return [`${this.session}.jsonl`, `${this.lines.join("\n")}\n`];
  }
}

const BUILD = [
  "src/report.rs:12:5: \u001b[1;33mwarning\u001b[0m\u001b[1m: unused import: `std::fmt`\u001b[0m",
  "src/report.rs:41:13: \u001b[1;31merror[E0502]\u001b[0m\u001b[1m: cannot borrow `stations` as mutable\u001b[0m",
].join("\n");

const ANSWER = `The loop on line 39 borrows \`stations\`, which cannot change meanwhile. \`retain\` can do it:

\`\`\`rust
stations.retain(|_, station| !station.is_closed());
\`\`\`

CMD: cargo build && cargo test
`;

const BRANCHES = `Two branches are merged:

| branch | last commit |
| --- | --- |
| \`fix-tides\` | 3 weeks ago |
| \`readme\` | 2 months ago |

CMD: git branch --delete fix-tides readme
`;

const build = new Journal(1, "Build of tides fails", 3);
build.user("why does the build fail?");
build.assistant("", [2140, 41, 900], [
  { id: "call_1", name: "aish.shell", arguments: '{"command":"cargo build --message-format short"}' },
]);
build.tool("call_1", "aish.shell", BUILD, 2310);
build.assistant(ANSWER, [2420, 168, 2600]);

const others = [
  ["Which process holds port 5432", 48, "what listens on 5432?", "CMD: ss -ltnp 'sport = :5432'"],
  ["Compare old.toml with new.toml", 130, "compare @old.toml with @new.toml", "Two keys differ."],
  ["Clean up merged branches", 200, "which branches are merged?", BRANCHES],
  ["Explain the failed migration", 320, "explain this", "The column exists already."],
].map(([title, minutes, prompt, answer], n) => {
  const journal = new Journal(n + 2, title, minutes);
  journal.user(prompt);
  journal.assistant(answer, [900, 40, 800]);
  return journal;
});

let daemon, browser;
try {
  daemon = await Daemon.start({ journal: Object.fromEntries([build, ...others].map((journal) => journal.file)) });
  // The list shows when a file was changed last.
  for (const { session, time } of [build, ...others]) {
    const path = join(daemon.home, "data/journal", `${session}.jsonl`);
    utimesSync(path, time / 1000, time / 1000);
  }
  await daemon.kill();
  await daemon.launch();
  const shared = `/v1/sessions/${others[2].session}/share`;
  const { digest } = await daemon.api("POST", shared, {});
  await daemon.api("POST", shared, { digest });
  // An answer that is running.
  const running = await daemon.newSession("Why do the nightly tests take so long");
  await daemon.api("POST", `/v1/sessions/${running}/messages`, { content: "slow tests at night: why?" });

  browser = await startBrowser();
  const look = { viewport: { width: 1200, height: 760 }, colorScheme: "dark", locale: "en-GB", timezoneId: "UTC" };
  const page = await openPage(browser, daemon, `/s/${build.session}`, look);
  await page.getByText("live", { exact: true }).waitFor();
  await page.locator(".sessions").getByText("answering").waitFor();
  await page.locator("details.call summary").click();
  await page.locator(".output").waitFor();
  await page.locator(".log").evaluate((log) => {
    const call = log.querySelector("details.call");
    log.scrollTop += call.getBoundingClientRect().top - log.getBoundingClientRect().top - 12;
    document.activeElement?.blur();
  });
  await page.mouse.move(0, 0);
  await page.screenshot({ path: OUTPUT });
  const { size } = statSync(OUTPUT);
  console.log(`${OUTPUT}: ${size} bytes`);
  if (size > LIMIT) throw new Error(`the picture has more than ${LIMIT} bytes`);
} finally {
  await browser?.close();
  daemon?.provider.release();
  await daemon?.stop();
}
