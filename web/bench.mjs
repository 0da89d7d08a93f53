// Measures the page in Chromium: how long `aish-helper web` takes to the first paint, and a session of 10,000 messages.
// Exits with 1 if a figure exceeds its limit. AISH_HELPER is the path of a release build of the program.
//
// `benches/figures.sh page` writes the figures into docs/figures.md.

import { mkdirSync, writeFileSync } from "node:fs";
import { dirname, join, resolve } from "node:path";
import { fileURLToPath } from "node:url";
import { Daemon, openPage, startBrowser, stopAll } from "./tests/harness.mjs";
import { LONG_SESSION, longSession } from "./tests/long-session.mjs";

const ROUNDS = 15;
const MESSAGES = 10_000;
const MB = 1 << 20;

const root = join(dirname(fileURLToPath(import.meta.url)), "..");
const rows = [["what", "median", "worst", "bar"]];
let missed = 0;

/** Records a figure, of which the median counts. */
function report(name, values, unit, bar) {
  const sorted = values.toSorted((a, b) => a - b);
  const [median, worst] = [sorted[sorted.length >> 1], sorted.at(-1)];
  const shown = (value) => `${value.toFixed(unit === "MB" ? 1 : 0)} ${unit}`.trimEnd();
  rows.push([name, shown(median), shown(worst), `≤ ${bar} ${unit}`.trimEnd()]);
  if (median <= bar) return;
  missed += 1;
  console.error(`bar missed: ${name} is ${shown(median)}, the bar is ${bar} ${unit}`);
}

/** Time from the start of the program to the first paint, in milliseconds. The browser runs already. */
async function firstPaint(daemon, browser) {
  const context = await browser.newContext();
  const page = await context.newPage();
  const start = performance.timeOrigin + performance.now();
  await page.goto(await daemon.ticketAddress());
  const painted = await page.evaluate(() => new Promise((resolve) => {
    new PerformanceObserver((list) => {
      const paint = list.getEntriesByName("first-contentful-paint")[0];
      if (paint) resolve(performance.timeOrigin + paint.startTime);
    }).observe({ type: "paint", buffered: true });
  }));
  await context.close();
  return painted - start;
}

/** Opens the long session in a separate page, and returns the time it took. */
async function openLong(daemon, browser) {
  const page = await openPage(browser, daemon);
  await page.addInitScript(() => {
    window.tasks = [0];
    new PerformanceObserver((list) => window.tasks.push(...list.getEntries().map((task) => task.duration)))
      .observe({ type: "longtask", buffered: true });
    const at = (selector, name) => {
      if (!(name in window) && document.querySelector(selector)) window[name] = performance.now();
    };
    new MutationObserver(() => {
      at(".answer-facts", "contentAt");
      // The page can be used once the prompt can be written.
      at("textarea:enabled", "interactiveAt");
    }).observe(document, { childList: true, subtree: true, attributes: true });
  });
  await page.goto(daemon.address(`/s/${LONG_SESSION}`));
  await page.locator(".answer-facts").first().waitFor();
  await page.getByText("live", { exact: true }).waitFor();
  const protocol = await page.context().newCDPSession(page);
  await protocol.send("Performance.enable");
  await protocol.send("HeapProfiler.collectGarbage");
  const { metrics } = await protocol.send("Performance.getMetrics");
  const heap = metrics.find(({ name }) => name === "JSHeapUsedSize").value / MB;
  const measured = await page.evaluate(() => ({
    content: window.contentAt,
    interactive: Math.max(window.interactiveAt, window.contentAt),
    nodes: document.querySelectorAll("*").length,
    task: Math.max(...window.tasks),
  }));
  await page.context().close();
  return { ...measured, heap };
}

const daemon = await Daemon.start({ journal: { [`${LONG_SESSION}.jsonl`]: longSession(MESSAGES) } });
const browser = await startBrowser();
const [paints, opened] = [[], []];
for (let round = 0; round < ROUNDS; round += 1) {
  paints.push(await firstPaint(daemon, browser));
  opened.push(await openLong(daemon, browser));
}
await stopAll(daemon, browser);

report("`aish-helper web` to the first paint", paints, "ms", 400);
report("10,000 messages: first content", opened.map((o) => o.content), "ms", 150);
report("interactive", opened.map((o) => o.interactive), "ms", 500);
report("elements", opened.map((o) => o.nodes), "", 2000);
report("heap", opened.map((o) => o.heap), "MB", 50);
report("longest task", opened.map((o) => o.task), "ms", 100);

const widths = rows[0].map((_, column) => Math.max(...rows.map((row) => row[column].length)));
const line = (cells, fill = " ", edge = " ") =>
  `|${cells.map((cell, column) => edge + cell.padEnd(widths[column], fill) + edge).join("|")}|`;
const table = [line(rows[0]), line(rows[0].map(() => ""), "-", "-"), ...rows.slice(1).map((row) => line(row))].join("\n");
console.log(table);
const figures = resolve(root, process.env.CARGO_TARGET_DIR ?? "target", "figures");
mkdirSync(figures, { recursive: true });
writeFileSync(join(figures, "page.md"), `${table}\n\n`);
process.exitCode = missed ? 1 : 0;
