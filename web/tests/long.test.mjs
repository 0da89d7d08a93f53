import assert from "node:assert/strict";
import { after, before, test } from "node:test";
import { Daemon, openPage, startBrowser, stopAll, until } from "./harness.mjs";
import { LONG_CODE } from "./provider.mjs";
import { HEAVY_SESSION, heavyRecordId, heavySession, LONG_SESSION, longSession, recordId } from "./long-session.mjs";

const MESSAGES = 10_000;
const HEAVY_MESSAGES = 60;
const MAX_ELEMENTS = 2000;
/** Time for earlier messages to be loaded, in milliseconds. */
const LOAD_MS = 20_000;

let daemon, browser, page;
before(async () => {
  const journal = { [`${LONG_SESSION}.jsonl`]: longSession(MESSAGES), [`${HEAVY_SESSION}.jsonl`]: heavySession(HEAVY_MESSAGES) };
  daemon = await Daemon.start({ journal });
  browser = await startBrowser();
  page = await openPage(browser, daemon, `/s/${LONG_SESSION}`);
});
after(() => stopAll(daemon, browser));

const elements = () => page.evaluate(() => document.querySelectorAll("*").length);
const firstPrompt = async () => Number((await page.locator(".prompt-text").first().innerText()).match(/\d+/)[0]);

/** Goes to an end of the window until the first shown prompt is what it should be. */
async function scrollUntil(end, condition) {
  await until(async () => {
    await page.locator(".log").evaluate((log, side) => {
      log.scrollTop = side === "top" ? 0 : log.scrollHeight;
    }, end);
    assert.ok((await elements()) <= MAX_ELEMENTS, "too many elements");
    return condition();
  });
}

test("a long session opens at its last prompt", async () => {
  const last = page.locator(".prompt-text", { hasText: `Prompt number ${MESSAGES / 2}:` });
  await last.waitFor();
  await until(() => last.evaluate((prompt) => {
    const { top, bottom } = prompt.getBoundingClientRect();
    return top > 0 && bottom < innerHeight;
  }));
  assert.ok((await elements()) <= MAX_ELEMENTS);
});

test("earlier and later messages load while scrolling, with few elements", async () => {
  const start = await firstPrompt();
  await scrollUntil("top", async () => (await firstPrompt()) < start - 200);
  await scrollUntil("bottom", () => page.getByText(`Prompt number ${MESSAGES / 2}:`).isVisible());
});

test("a print says that it has not all messages", async () => {
  const words = page.getByText("Only the messages that the page has loaded are printed.");
  assert.ok(!(await words.isVisible()));
  await page.emulateMedia({ media: "print" });
  assert.ok(await words.isVisible());
  await page.emulateMedia({ media: null });
});

/** Keeps back the pages of messages that an end of the window asks for, until they are released. */
async function holdPages(page) {
  let release, hold;
  const held = new Promise((resolve) => { hold = resolve; });
  const released = new Promise((resolve) => { release = resolve; });
  await page.route(/\/messages\?/, async (route) => {
    // The end of the session is asked for with another limit, and without a place.
    if (/limit=40$/.test(route.request().url())) return route.continue();
    hold();
    await released;
    await route.continue();
  });
  return { held, release };
}

test("the place stays while earlier messages are added", async () => {
  await page.keyboard.press("Shift+G");
  await page.locator(".to-end").waitFor({ state: "detached" });
  const pages = await holdPages(page);
  let isHeld = false;
  pages.held.then(() => { isHeld = true; });
  await until(async () => {
    // Until the page has handled the scrolling, the view may still follow its end.
    await page.locator(".log").evaluate((log) => new Promise((resolve) => {
      log.scrollTop = 300;
      requestAnimationFrame(() => requestAnimationFrame(resolve));
    }));
    return isHeld;
  });
  const moved = page.evaluate((limit) => new Promise((resolve, reject) => {
    const messages = () => [...document.querySelectorAll(".log [data-message]")];
    const top = (message) => message.getBoundingClientRect().top;
    const first = messages()[0];
    const shown = messages().find((message) => top(message) > 100);
    const before = top(shown);
    const sample = () => {
      if (messages()[0] === first) return requestAnimationFrame(sample);
      requestAnimationFrame(() => resolve(Math.abs(top(shown) - before)));
    };
    sample();
    setTimeout(() => reject(new Error("nothing was loaded")), limit);
  }), LOAD_MS);
  pages.release();
  assert.ok((await moved) < 3, `moved by ${await moved} px`);
});

for (const [direction, side] of [["earlier", "top"], ["later", "bottom"]]) {
  test(`${direction} messages that arrive after a jump to the end leave no gap and nothing twice`, async () => {
    const other = await openPage(browser, daemon, `/s/${LONG_SESSION}/r/${recordId(101)}`);
    await other.locator(".message.target").waitFor();
    await other.getByText("live", { exact: true }).waitFor();
    await other.evaluate(() => {
      window.broken = [];
      const check = () => {
        const prompts = [...document.querySelectorAll(".prompt-text")];
        window.numbers = prompts.map((prompt) => Number(prompt.textContent.match(/\d+/)[0]));
        if (window.numbers.some((number, index) => number !== window.numbers[0] + index)) window.broken.push(window.numbers);
        requestAnimationFrame(check);
      };
      check();
    });
    const pages = await holdPages(other);
    const asked = other.waitForRequest(side === "top" ? /before=\d{1,2}$/ : /limit=30$/);
    await other.locator(".log").evaluate((log, end) => {
      log.scrollTop = end === "top" ? 0 : log.scrollHeight;
    }, side);
    await asked;
    await other.locator(".log").press("Shift+G");
    await other.getByText(`Prompt number ${MESSAGES / 2}:`).waitFor();
    pages.release();
    // Nothing more is loaded before the page has handled what was held.
    await other.locator(".log").evaluate((log) => {
      log.scrollTop = 0;
    });
    await until(async () => (await other.evaluate(() => window.numbers[0])) < MESSAGES / 2 - 20);
    assert.deepEqual(await other.evaluate(() => window.broken), []);
    assert.deepEqual(other.problems, []);
    await other.context().close();
  });
}

test("a link into a session with long answers is opened at its message, and all later messages follow", async () => {
  const heavy = await openPage(browser, daemon, `/s/${HEAVY_SESSION}/r/${heavyRecordId(11)}`);
  const target = heavy.locator(".message.target", { hasText: "Prompt number 6:" });
  await target.waitFor();
  await until(() => target.evaluate((prompt) => {
    const { top, bottom } = prompt.getBoundingClientRect();
    return top > 0 && bottom < innerHeight;
  }));
  const numbers = new Set();
  await until(async () => {
    const shown = await heavy.locator(".log").evaluate((log) => {
      log.scrollTop = log.scrollHeight;
      return [...document.querySelectorAll(".prompt-text")].map((prompt) => Number(prompt.textContent.match(/\d+/)[0]));
    });
    assert.ok(shown.every((number, index) => number === shown[0] + index), `a gap: ${shown}`);
    shown.forEach((number) => numbers.add(number));
    return numbers.has(HEAVY_MESSAGES / 2);
  });
  assert.deepEqual(heavy.problems, []);
  await heavy.context().close();
});

test("new messages are counted while the user reads earlier ones", async () => {
  await page.goto(daemon.address(`/s/${LONG_SESSION}/r/${recordId(101)}`));
  await page.locator(".message.target", { hasText: "Prompt number 51:" }).waitFor();
  await page.getByText("live", { exact: true }).waitFor();
  await daemon.ask(LONG_SESSION, "something new");
  const button = page.getByRole("button", { name: /2 new/ });
  await button.click();
  await page.locator(".prompt-text", { hasText: "something new" }).waitFor();
  await button.waitFor({ state: "detached" });
  assert.ok((await elements()) <= MAX_ELEMENTS);
});

test("the first messages appear quickly, without long tasks", async () => {
  await page.addInitScript(() => {
    window.tasks = [];
    new PerformanceObserver((list) => window.tasks.push(...list.getEntries().map((task) => task.duration)))
      .observe({ type: "longtask", buffered: true });
    new MutationObserver((_, observer) => {
      if (!document.querySelector(".prompt-text")) return;
      window.shownAt = performance.now();
      observer.disconnect();
    }).observe(document, { childList: true, subtree: true });
  });
  let fastest = Infinity;
  for (let load = 0; load < 3 && fastest >= 3000; load += 1) {
    await page.goto("about:blank");
    await page.goto(daemon.address(`/s/${LONG_SESSION}`));
    await page.locator(".answer-facts").first().waitFor();
    const { shownAt, tasks } = await page.evaluate(() => ({ shownAt: window.shownAt, tasks: window.tasks }));
    console.log(`shown after ${Math.round(shownAt)} ms; long tasks: ${tasks.map(Math.round).join(", ") || "none"}`);
    fastest = Math.min(fastest, shownAt);
  }
  // Twenty times what is aimed at would be a fault of the page; less may be a busy machine.
  assert.ok(fastest < 3000);
  assert.deepEqual(page.problems, []);
});

test("the messages are requested first, and wait for no other request", async () => {
  const slow = await openPage(browser, daemon);
  // What the list of sessions still asks for must not count.
  await slow.goto("about:blank");
  const asked = [];
  await slow.route("**/v1/**", (route) => {
    const { pathname } = new URL(route.request().url());
    asked.push(pathname);
    // All others get no answer.
    return /\/(messages|events)$/.test(pathname) ? route.continue() : undefined;
  });
  await slow.goto(daemon.address(`/s/${LONG_SESSION}`));
  await slow.locator(".answer-facts").first().waitFor();
  await slow.getByText("live", { exact: true }).waitFor();
  assert.equal(asked[0], `/v1/sessions/${LONG_SESSION}/messages`);
  assert.ok(asked.includes(`/v1/sessions/${LONG_SESSION}`));
  assert.deepEqual(slow.problems, []);
  await slow.context().close();
});

test("a link to a record is opened once, and says what is missing", async () => {
  const linked = await openPage(browser, daemon);
  const asked = [];
  linked.on("request", (request) => asked.push(new URL(request.url()).pathname));
  const requests = (pattern) => asked.filter((path) => pattern.test(path)).length;
  await linked.goto(daemon.address(`/s/${LONG_SESSION}/r/${recordId(101)}`));
  await linked.locator(".message.target").waitFor();
  await linked.getByText("live", { exact: true }).waitFor();
  assert.equal(requests(/\/records\//), 1);
  assert.equal(requests(/\/messages$/), 3);
  // The panel of a record closes while the session is reloaded, because its position is no longer known.
  let release;
  const released = new Promise((resolve) => { release = resolve; });
  await linked.route(/\/messages\?/, async (route) => {
    await released;
    await route.continue();
  });
  await linked.route(/\/events\?/, (route) => route.fulfill({ status: 410, body: "{}" }), { times: 1 });
  const again = linked.waitForRequest(/\/messages\?/);
  await daemon.kill();
  await daemon.launch();
  await again;
  await linked.getByRole("region", { name: "Record" }).getByRole("button", { name: "Close" }).click();
  await linked.getByRole("region", { name: "Record" }).waitFor({ state: "detached" });
  release();
  await linked.getByText("live", { exact: true }).waitFor();
  for (const delay of [0, 300]) {
    await linked.unrouteAll();
    await linked.route(/\/messages\?/, (route) => setTimeout(() => route.continue(), delay));
    await linked.goto(daemon.address(`/s/${LONG_SESSION}/r/${recordId(1_000_001)}`));
    await linked.getByText("the session has no record with this id").waitFor();
    await linked.locator(".answer-facts").first().waitFor();
    assert.equal(await linked.getByText("the session has no record with this id").count(), 1);
  }
  assert.deepEqual(linked.problems, []);
  await linked.context().close();
});

test("the rest of the page is drawn while the messages are slow", async () => {
  const slow = await openPage(browser, daemon);
  let release;
  const released = new Promise((resolve) => { release = resolve; });
  await slow.route(/\/messages\?/, async (route) => {
    await released;
    await route.continue();
  });
  await slow.goto(daemon.address(`/s/${LONG_SESSION}`));
  await slow.locator("#prompt").waitFor();
  assert.equal(await slow.locator(".prompt-text").count(), 0);
  release();
  await slow.locator(".answer-facts").first().waitFor();
  assert.equal(await slow.locator(".prompt-text", { hasText: `Prompt number ${MESSAGES / 2}:` }).count(), 1);
  assert.deepEqual(slow.problems, []);
  await slow.context().close();
});

test("a long answer streams with few elements and without long tasks, and the view follows it", async () => {
  const session = await daemon.newSession("Flood");
  await page.goto(daemon.address(`/s/${session}`));
  await page.getByText("live", { exact: true }).waitFor();
  await page.evaluate(() => {
    window.tasks = [];
    window.most = 0;
    const count = () => {
      window.most = Math.max(window.most, document.querySelectorAll("*").length);
      requestAnimationFrame(count);
    };
    count();
  });
  await page.locator("#prompt").fill("flood");
  await page.keyboard.press("Enter");
  await page.locator(".answer-facts").waitFor();
  const { most, tasks } = await page.evaluate(() => ({ most: window.most, tasks: window.tasks }));
  console.log(`at most ${most} elements; long tasks: ${tasks.map(Math.round).join(", ") || "none"}`);
  assert.ok(most <= MAX_ELEMENTS, `${most} elements`);
  await until(() => page.locator(".log").evaluate((log) => log.scrollHeight - log.scrollTop - log.clientHeight < 40));
  await page.getByText("const n = 2999;").waitFor();
  assert.deepEqual(page.problems, []);
});

test("a long code block is shown whole in steps of about the same size", async () => {
  const session = await daemon.newSession("Code");
  await page.goto(daemon.address(`/s/${session}`));
  await page.getByText("live", { exact: true }).waitFor();
  await page.locator("#prompt").fill("long code");
  await page.keyboard.press("Enter");
  await page.locator(".answer-facts").waitFor();
  await page.reload();
  const all = page.getByRole("button", { name: /^Show all/ });
  await all.waitFor();
  await page.evaluate(() => {
    window.most = 0;
    new MutationObserver((changes) => {
      const texts = changes.flatMap(({ type, target, addedNodes }) => (type === "characterData" ? [target] : [...addedNodes]));
      const length = texts.reduce((sum, node) => sum + node.textContent.length, 0);
      window.most = Math.max(window.most, length);
    }).observe(document.querySelector(".answer"), { childList: true, subtree: true, characterData: true });
  });
  await all.click();
  await page.locator(".command code", { hasText: "echo done" }).waitFor();
  await all.waitFor({ state: "detached" });
  const most = await page.evaluate(() => window.most);
  assert.ok(most <= 200_000, `${most} characters at once`);
  const shown = await page.locator(".answer .part").evaluateAll((parts) => parts.map((part) => part.textContent).join("\n"));
  const [lines] = shown.split("yyy", 1);
  assert.equal(lines.trim(), `\`\`\`\n${LONG_CODE.slice(0, LONG_CODE.indexOf("yyy")).trimEnd()}`);
  assert.match(shown, /y\nthe end/);
  assert.deepEqual(page.problems, []);
});

test("a long table is shown in part, and whole in steps", async () => {
  const session = await daemon.newSession("Table");
  await page.goto(daemon.address(`/s/${session}`));
  await page.getByText("live", { exact: true }).waitFor();
  await page.locator("#prompt").fill("a long table");
  await page.keyboard.press("Enter");
  // The end is shown of an answer that was on the page while it ran.
  await page.locator("td").first().waitFor();
  daemon.provider.release();
  await page.locator(".answer-facts").waitFor();
  for (const [isReloaded, shown, hidden] of [[false, "999", "0"], [true, "0", "999"]]) {
    if (isReloaded) await page.reload();
    const cell = (text) => page.locator("td", { hasText: new RegExp(`^${text}$`) });
    await cell(shown).waitFor();
    assert.equal(await cell(hidden).count(), 0);
    assert.ok((await elements()) <= 1000, "too many elements");
    await page.evaluate(() => {
      window.most = 0;
      const count = () => document.querySelectorAll("*").length;
      let before = count();
      new MutationObserver(() => {
        const now = count();
        window.most = Math.max(window.most, now - before);
        before = now;
      }).observe(document.querySelector(".answer"), { childList: true, subtree: true });
    });
    await page.getByRole("button", { name: /^Show all/ }).click();
    await until(async () => (await page.locator("tr").count()) === 1001);
    await page.getByRole("button", { name: /^Show all/ }).waitFor({ state: "detached" });
    const most = await page.evaluate(() => window.most);
    assert.ok(most <= 1000, `${most} elements at once`);
  }
  assert.deepEqual(page.problems, []);
});
