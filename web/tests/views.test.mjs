import assert from "node:assert/strict";
import { after, afterEach, before, test } from "node:test";
import { Daemon, openLiveSession, openPage, sendPrompt, startBrowser, stopAll, until } from "./harness.mjs";

let daemon, browser, page;
before(async () => {
  daemon = await Daemon.start();
  browser = await startBrowser();
});
afterEach(async () => {
  await page?.context().close();
  page = null;
});
after(() => stopAll(daemon, browser));

async function openSession(title, options) {
  const session = await openLiveSession(browser, daemon, title, options);
  page = session.page;
  return session.id;
}

const prompt = (words) => sendPrompt(page, words);

test("a prompt that waits for the previous answer is shown in every tab until its turn, once", async () => {
  const id = await openSession("Waiting");
  await prompt("slow answer first");
  await page.locator(".answer", { hasText: "First part." }).waitFor();
  await prompt("second while the first is answered");
  // It is read with the messages here, and was told as an event there.
  const other = await openPage(browser, daemon, `/s/${id}`);
  const tabs = [page, other];
  const waiting = (tab) => tab.locator(".message.waiting");
  const prompts = (tab) => tab.locator(".prompt-text").allInnerTexts();
  for (const tab of tabs) {
    await waiting(tab).getByText("waits for the previous answer").waitFor();
    await waiting(tab).getByText("second while the first is answered").waitFor();
    assert.match(await tab.locator("article.message").last().getAttribute("class"), /waiting/);
  }
  daemon.provider.release();
  for (const tab of tabs) {
    await tab.locator(".message.assistant").nth(1).getByText("Second part.").waitFor();
    await waiting(tab).waitFor({ state: "detached" });
    assert.deepEqual(await prompts(tab), ["slow answer first", "second while the first is answered"]);
  }
  // One that is withdrawn is not answered.
  await prompt("slow answer before a mistake");
  await page.locator(".message.assistant").nth(2).getByText("First part.").waitFor();
  await prompt("a mistake");
  await page.getByRole("button", { name: "Withdraw" }).focus();
  await page.keyboard.press("Enter");
  for (const tab of tabs) await waiting(tab).getByText("Not answered").waitFor();
  // The focus stays with the prompt, and what happened is told.
  await page.locator(".message.waiting:focus", { hasText: "a mistake" }).waitFor();
  await page.getByRole("status").getByText("The prompt was withdrawn.").waitFor();
  // The answer that runs stays below its own prompt.
  const kinds = (tab) => tab.locator("article.message").evaluateAll((all) => all.slice(-3).map((message) => message.classList[1]));
  for (const tab of tabs) assert.deepEqual(await kinds(tab), ["user", "assistant", "waiting"]);
  await other.reload();
  await waiting(other).getByText("Not answered").waitFor();
  await other.locator(".message.assistant").nth(2).getByText("First part.").waitFor();
  assert.deepEqual(await kinds(other), ["user", "assistant", "waiting"]);
  daemon.provider.release();
  for (const tab of tabs) await tab.locator(".message.assistant").nth(2).getByText("Second part.").waitFor();
  assert.equal(await page.locator(".message.assistant").count(), 3);
  for (const tab of tabs) assert.deepEqual(await kinds(tab), ["user", "assistant", "waiting"]);
  // One that waits when the daemon ends was not answered. It stays in its place and says so, also in a page that is opened later.
  await prompt("slow answer again");
  await page.locator(".message.assistant").nth(3).getByText("First part.").waitFor();
  await prompt("never to be answered");
  for (const tab of tabs) await waiting(tab).getByText("waits for the previous answer").waitFor();
  await daemon.kill();
  await daemon.launch();
  for (const tab of tabs) await waiting(tab).nth(1).getByText("Not answered").waitFor();
  await daemon.ask(id, "after the crash");
  await other.reload();
  for (const tab of tabs) {
    await tab.locator(".prompt-text", { hasText: "after the crash" }).waitFor();
    await waiting(tab).nth(1).getByText("Not answered").waitFor();
    assert.deepEqual((await prompts(tab)).slice(2), ["slow answer before a mistake", "a mistake", "slow answer again", "never to be answered", "after the crash"]);
  }
  daemon.provider.release();
  assert.deepEqual(tabs.flatMap((tab) => tab.problems), []);
  await other.context().close();
});

test("a prompt that waited and was not answered does not part a call from its result", async () => {
  const session = "019b0000-0000-7000-8000-000000000000";
  const answer = { calls: [{ id: "c1", name: "notes.read_log", arguments: "{}" }], model: "local", finish: "stop", duration_ms: 1 };
  const records = [
    { type: "session", session, shell: null },
    { type: "user", prompt: "read it", rendered: "read it", shell: null, cwd: "/", ids: { prompt: "p1" } },
    { type: "assistant", text: "I read it.", ...answer, ids: { prompt: "p1", turn: "r1" } },
    { type: "waiting_prompt", prompt: "and then?", ids: { prompt: "p2" } },
    { type: "tool", call: "c1", name: "notes.read_log", status: "success", text: "a line", bytes: 6, duration_ms: 1, ids: { prompt: "p1" } },
  ];
  const line = (record, n) => JSON.stringify({ v: 2, id: `019b0000-0000-7000-8000-00000000000${n + 1}`, timestamp_ms: 1764170000000 + n, ...record });
  await daemon.addJournal({ [`${session}.jsonl`]: records.map((record, n) => `${line(record, n)}\n`).join("") });
  page = await openPage(browser, daemon, `/s/${session}`);
  await page.getByText("Not answered").waitFor();
  assert.match(await page.locator(".call > summary").innerText(), /notes\.read_log/);
  assert.equal(await page.locator(".message.tool").count(), 0);
  assert.deepEqual(await page.locator(".prompt-text").allInnerTexts(), ["read it", "and then?"]);
  // The address of its record names it; the filter of prompts shows it too.
  await page.locator(".message.waiting a.time").click();
  await page.locator(".message.waiting.target").waitFor();
  await page.locator("#log-filter").selectOption("prompts");
  await page.getByText("2 prompts", { exact: true }).waitFor();
});

test("while the daemon is gone nothing is said to run", async () => {
  await openSession("Gone");
  await prompt("slow before the end");
  await page.locator(".answer", { hasText: "First part." }).waitFor();
  await prompt("please use the tool");
  daemon.provider.release();
  await page.getByRole("region", { name: "Open questions" }).waitFor();
  await page.getByText("Waiting for an answer to the question").waitFor();
  await daemon.kill();
  await page.locator(".connection.no_answer").waitFor();
  assert.equal(await page.getByRole("button", { name: "Cancel" }).count(), 0);
  assert.equal(await page.locator(".working, .questions").count(), 0);
  await daemon.launch();
  await page.getByText("live", { exact: true }).waitFor();
});

test("what is told is told again if it is the same, and questions are", async () => {
  await openSession("Told");
  await page.evaluate(() => {
    window.told = [];
    const region = document.querySelector("div.off-screen[role=status]");
    // Only added text is announced, not text that is there already.
    const added = (changes) => changes.flatMap(({ addedNodes }) => [...addedNodes]).forEach((node) => window.told.push(node.textContent));
    new MutationObserver(added).observe(region, { childList: true, characterData: true, subtree: true });
    if (region.ariaAtomic !== "false") window.told.push("Everything in the region is told.");
  });
  const told = (words) => page.evaluate((part) => window.told.filter((text) => text.includes(part)).length, words);
  for (const n of [1, 2]) {
    await prompt(`the same, ${n}`);
    await until(async () => (await told("Answer: First part. Second part.")) === n);
    await page.locator(".answer-facts").nth(n - 1).waitFor();
  }
  for (const n of [1, 2]) {
    await prompt("please use the tool");
    await until(async () => (await told("A question is open. Answer it in the terminal.")) === n);
    await page.getByRole("button", { name: "Cancel" }).click();
    await page.getByRole("region", { name: "Open questions" }).waitFor({ state: "detached" });
  }
  const all = await page.evaluate(() => window.told);
  assert.deepEqual(all.filter((text) => /Everything|(A question|Answer:).*(A question|Answer:)/s.test(text)), []);
});

test("a call whose question was open when the answer was cancelled says so", async () => {
  await openSession("Cancelled call");
  await prompt("please use the tool");
  await page.getByRole("region", { name: "Open questions" }).waitFor();
  await page.getByRole("button", { name: "Cancel" }).click();
  const call = page.locator("details.call");
  for (const isReloaded of [false, true]) {
    if (isReloaded) await page.reload();
    await call.getByText("not made: the answer was cancelled").waitFor();
    assert.equal(await call.locator(".call-time").count(), 0);
  }
});

test("a link to a decision shows the call that it is about", async () => {
  const id = await daemon.newSession("Decided");
  for (let n = 0; n < 3; n++) await daemon.ask(id, `${"a long prompt\n".repeat(30)} ${n}`);
  await daemon.ask(id, "read the log");
  for (let n = 0; n < 3; n++) await daemon.ask(id, `${"a long prompt\n".repeat(30)} ${n}`);
  const { messages } = await daemon.api("GET", `/v1/sessions/${id}/messages`);
  const result = messages.find((message) => message.role === "tool");
  const { chain } = await daemon.api("GET", `/v1/sessions/${id}/records/${result.record_id}`);
  const decision = chain.find((entry) => entry.type === "approval");
  page = await openPage(browser, daemon, `/s/${id}/r/${decision.record_id}`);
  const summary = page.locator("details.call.target > summary");
  await summary.waitFor();
  await until(() => summary.evaluate((element) => {
    const { top, bottom } = element.getBoundingClientRect();
    return element === document.activeElement && top > 0 && bottom < innerHeight;
  }));
  // A record that is not a message is shown where it is in the session.
  await daemon.api("PATCH", `/v1/sessions/${id}`, { title: "Decided anew" });
  const title = (await daemon.api("GET", `/v1/activity?session=${id}&type=session&limit=1`)).activities[0];
  await page.goto(daemon.address(`/s/${id}/r/${title.record_id}`));
  await page.locator(".provenance").waitFor();
  await until(() => page.evaluate(() => document.activeElement?.textContent.includes("Second part.")));
  assert.deepEqual(page.problems, []);
});

test("every view sets its title", async () => {
  const id = await daemon.newSession("Titled");
  page = await openPage(browser, daemon, `/s/${id}`);
  const titled = (title) => page.waitForFunction((wanted) => document.title === wanted, title);
  await titled("Titled – aish");
  await page.getByRole("link", { name: "Activity" }).click();
  await titled("Activity – aish");
  await page.getByRole("link", { name: "Shares" }).click();
  await titled("Shares – aish");
  await page.locator(".brand").click();
  await titled("aish");
  await page.goBack();
  await titled("Shares – aish");
  await page.goBack();
  await page.goBack();
  await titled("Titled – aish");
  await page.goto(daemon.address("/s/nonsense"));
  await titled("there is no session with this id – aish");
  assert.ok(!(await page.locator("main").innerText()).includes("/v1/"));
});

test("the page does not scroll, whatever is in it", async () => {
  await openSession("Not scrolling", { viewport: { width: 900, height: 500 } });
  await prompt("please use the tool for long text");
  await page.getByRole("region", { name: "Open questions" }).waitFor();
  await page.locator(".composer").evaluate((composer) => composer.scrollTo(0, composer.scrollHeight));
  const height = () => page.evaluate(() => document.documentElement.scrollHeight - innerHeight);
  assert.ok((await height()) <= 0);
  await page.getByRole("button", { name: "Cancel" }).click();
  for (const path of ["/", "/activity", "/shares", "/s/unknown"]) {
    await page.goto(daemon.address(path));
    await page.locator("h1").first().waitFor({ state: "attached" });
    assert.ok((await height()) <= 0, path);
  }
});

test("G moves the focus to the last message", async () => {
  const id = await daemon.newSession("To the end");
  for (const words of ["alpha", "beta"]) await daemon.ask(id, words);
  page = await openPage(browser, daemon, `/s/${id}`);
  await page.locator(".answer-facts").nth(1).waitFor();
  await page.keyboard.press("g");
  await page.keyboard.press("g");
  await page.keyboard.press("Shift+G");
  await until(() => page.evaluate(() => document.activeElement === [...document.querySelectorAll("[data-message]")].at(-1)));
  await page.keyboard.press("k");
  assert.ok(await page.evaluate(() => document.activeElement.textContent.includes("beta")));
});

test("the key of the search works where the list has a view of its own", async () => {
  await openSession("Narrow", { viewport: { width: 640, height: 400 } });
  await page.locator(".log").click();
  await page.keyboard.press("/");
  await until(() => page.evaluate(() => document.activeElement?.id === "search"));
  assert.equal(new URL(page.url()).pathname, "/");
});

test("the log shows only prompts, answers, tool calls, commands or errors", async () => {
  const id = await daemon.newSession("Filtered");
  for (const words of ["alpha", "read the log", "this fails", ...Array.from({ length: 35 }, (_, n) => `more ${n}`)]) await daemon.ask(id, words);
  page = await openPage(browser, daemon, `/s/${id}`);
  await page.locator(".answer-facts").last().waitFor();
  await page.locator(".log").click();
  await page.keyboard.press("f");
  const select = page.getByLabel("Show");
  assert.ok(await select.evaluate((element) => element === document.activeElement));
  const messages = page.locator(".log .message");
  const state = (words) => page.locator(".log [role=status]").getByText(words, { exact: true }).waitFor();
  const only = async (kind, count, words) => {
    await select.selectOption({ label: kind });
    await state(words);
    assert.equal(await messages.count(), count);
  };
  await only("Prompts", 30, "The last 30 prompts");
  assert.equal(await page.locator(".message.user").count(), 30);
  await page.getByRole("button", { name: "Show earlier" }).click();
  await messages.first().getByText("alpha").waitFor();
  assert.equal(await messages.count(), 8);
  await state("8 earlier prompts");
  await only("Tool calls", 1, "1 tool call");
  await messages.getByText("notes.read_log").waitFor();
  await only("Commands", 0, "No commands");
  for (const _ of [1, 2]) {
    await only("Errors", 1, "1 error");
    await messages.getByText("The answer failed.").waitFor();
    assert.ok(!(await messages.innerText()).includes("$"));
    // A record is shown among the messages around it, also if the address names it already.
    await messages.locator("a.time").click();
    await page.locator(".message.assistant.target").waitFor();
    await messages.nth(1).waitFor();
  }
  assert.deepEqual(page.problems, []);
});

test("the list shows only sessions that are shared, wait or answer", async () => {
  const id = await openSession("With a question");
  await daemon.newSession("Without one");
  await prompt("please use the tool");
  const entries = page.locator(".sessions li");
  await entries.getByText("question open").waitFor();
  const select = page.getByLabel("Which sessions");
  await select.selectOption("waiting");
  await until(async () => (await entries.count()) === 1);
  await entries.getByText("With a question").waitFor();
  await page.getByRole("button", { name: "Cancel" }).click();
  await page.getByText("No session matches the filter.").waitFor();
  // Shared elsewhere: the list and the session say so when the list is read again.
  await select.selectOption("shared");
  const { digest } = await daemon.api("POST", `/v1/sessions/${id}/share`, {});
  await daemon.api("POST", `/v1/sessions/${id}/share`, { digest });
  await page.evaluate(() => window.dispatchEvent(new Event("focus")));
  await entries.getByText("With a question").waitFor();
  await page.locator(".facts .shared").waitFor();
  await daemon.api("POST", `/v1/sessions/${id}/unshare`);
  await page.evaluate(() => window.dispatchEvent(new Event("focus")));
  await page.locator(".facts .shared").waitFor({ state: "detached" });
});

test("earlier messages that cannot be loaded are said to be missing", async () => {
  const id = await openSession("Growing");
  for (let n = 0; n < 56; n++) await daemon.ask(id, `prompt ${n}`);
  await page.locator(".prompt-text", { hasText: "prompt 55" }).waitFor();
  await page.locator(".prompt-text", { hasText: /^prompt 0$/ }).waitFor({ state: "detached" });
  await page.route("**/records/**", (route) => route.abort());
  const log = page.locator(".log");
  const up = () => log.evaluate((element) => {
    element.scrollTop = element.scrollTop > 0 ? 0 : element.scrollHeight;
  });
  await until(async () => {
    await up();
    return page.getByRole("alert").getByText("the daemon does not answer").isVisible();
  });
  await page.unroute("**/records/**");
  await until(async () => {
    await up();
    return page.locator(".prompt-text", { hasText: /^prompt 0$/ }).count();
  });
  assert.deepEqual(page.problems, []);
});

const focused = () => page.evaluate(() => document.activeElement.id || document.activeElement.textContent);

test("the focus stays in the page when what had it is gone", async () => {
  const id = await daemon.newSession("Focus");
  page = await openPage(browser, daemon);
  await page.locator(`.sessions a[href="/s/${id}"]`).focus();
  await page.keyboard.press("Enter");
  await page.waitForFunction(() => document.activeElement.id === "prompt");
  await page.getByText("live", { exact: true }).waitFor();

  // The menu closes when the focus leaves it, and gives it back after a dialog or an action.
  const menu = page.locator(".menu");
  const more = menu.locator("summary");
  const choose = async (name) => {
    await more.focus();
    await page.keyboard.press("Enter");
    await page.getByRole("button", { name }).focus();
    await page.keyboard.press("Enter");
  };
  for (const name of ["Rename…", "Delete…"]) {
    await choose(name);
    await page.getByRole("dialog").waitFor();
    await page.keyboard.press("Escape");
    await page.getByRole("dialog").waitFor({ state: "detached" });
    assert.equal(await focused(), "More");
  }
  await choose("Copy as Markdown");
  await page.locator(".toast").waitFor();
  assert.equal(await focused(), "More");
  await page.keyboard.press("Enter");
  for (let n = 0; n < 6; n++) {
    assert.ok(await menu.evaluate((element) => element.open));
    await page.keyboard.press("Tab");
  }
  assert.ok(!(await menu.evaluate((element) => element.open)));

  // Cancel is gone with the answer.
  await prompt("slow one to cancel");
  await page.locator(".answer", { hasText: "First part." }).waitFor();
  await page.getByRole("button", { name: "Cancel" }).focus();
  await page.keyboard.press("Enter");
  await page.getByRole("button", { name: "Cancel" }).waitFor({ state: "detached" });
  assert.equal(await focused(), "prompt");
  daemon.provider.release();

  // The way back leads to the link of the session, or where there is no list to the view.
  await page.goBack();
  await page.locator(".home").waitFor();
  assert.match(await focused(), /^Focus/);
  await page.goForward();
  await page.locator("#prompt").focus();
  await page.setViewportSize({ width: 320, height: 640 });
  await page.getByRole("link", { name: "Sessions" }).click();
  await page.locator("#search").waitFor();
  assert.match(await focused(), /^Focus/);
  await page.goBack();
  await page.locator("#prompt").waitFor();
  await page.waitForFunction(() => document.activeElement !== document.body);
});

/** What of the page is outside of the view, and what lies over something else. */
const misplaced = () => page.evaluate(() => {
  const box = (selector) => document.querySelector(selector)?.getBoundingClientRect();
  const wrong = [];
  for (const button of document.querySelectorAll(".composer-actions button")) {
    const { top, bottom, left, right } = button.getBoundingClientRect();
    if (top < 0 || left < 0 || bottom > innerHeight || right > innerWidth) wrong.push(`${button.textContent} is at ${Math.round(top)}`);
  }
  const order = [".bar", ".provenance", ".log", ".questions", ".composer form"].filter(box);
  for (let n = 1; n < order.length - 1; n++) {
    if (box(order[n]).top < box(order[n - 1]).bottom - 1) wrong.push(`${order[n]} lies over ${order[n - 1]}`);
  }
  if (box(".log").height < 60) wrong.push("no place for messages");
  return wrong;
});

test("an open question leaves the messages and the buttons in view", async () => {
  const id = await openSession("Placed");
  await prompt("read the log");
  await page.locator(".answer-facts").nth(1).waitFor();
  await prompt("please use the tool for long text");
  await page.getByRole("region", { name: "Open questions" }).waitFor();
  const { messages } = await daemon.api("GET", `/v1/sessions/${id}/messages`);
  const result = messages.find((message) => message.role === "tool");
  for (const path of [`/s/${id}`, `/s/${id}/r/${result.record_id}`]) {
    await page.goto(daemon.address(path));
    for (const [width, height] of [[1100, 800], [900, 500], [640, 320], [320, 640]]) {
      await page.setViewportSize({ width, height });
      await page.getByRole("region", { name: "Open questions" }).waitFor();
      if (path.includes("/r/")) await page.locator(".provenance").waitFor();
      assert.deepEqual(await misplaced(), [], `${path} at ${width} x ${height}`);
      // The question is seen when it is opened, also where everything scrolls together.
      await page.reload();
      await until(async () => {
        const top = (await page.locator(".question h2").boundingBox()).y;
        return top > 0 && top < (await page.locator(".composer form").boundingBox()).y - 20;
      });
      // All of the question can be reached.
      await page.locator(".question .end").scrollIntoViewIfNeeded();
      const end = await page.locator(".question .end").boundingBox();
      const form = await page.locator(".composer form").boundingBox();
      assert.ok(end.y > 0 && end.y <= form.y, `the end of the question at ${width} x ${height}`);
    }
  }
  await page.getByRole("button", { name: "Cancel" }).click();
});

test("all loaded messages are printed, dark on white", async () => {
  const id = await daemon.newSession("Printed");
  for (let n = 0; n < 8; n++) await daemon.ask(id, `${"a long prompt\n".repeat(30)} ${n}`);
  page = await openPage(browser, daemon, `/s/${id}`, { colorScheme: "dark" });
  await page.locator(".answer-facts").nth(7).waitFor();
  await page.emulateMedia({ media: "print" });
  const log = await page.locator(".log").boundingBox();
  const last = await page.locator(".answer-facts").last().boundingBox();
  assert.ok(log.height > 8 * 30 * 16 && last.y < log.y + log.height);
  for (const hidden of [".sidebar", ".composer", ".bar-actions", ".message-actions button"]) assert.ok(!(await page.locator(hidden).first().isVisible()), hidden);
  assert.equal(await page.evaluate(() => getComputedStyle(document.body).color), "rgb(28, 35, 37)");
  const pages = (await page.pdf()).toString("latin1").match(/\/Type \/Page\b/g).length;
  assert.ok(pages >= 4, `${pages} pages`);
});

test("a prompt whose answer was lost says so", async () => {
  const session = "019b0000-0000-7000-8000-000000000010";
  const records = [
    { type: "session", session, shell: null },
    ...["first", "second"].map((words) => ({ type: "user", prompt: words, rendered: words, shell: null, cwd: "/", ids: { prompt: words } })),
  ];
  const line = (record, n) => JSON.stringify({ v: 2, id: `019b0000-0000-7000-8000-00000000001${n + 1}`, timestamp_ms: 1764170000000 + n, ...record });
  await daemon.addJournal({ [`${session}.jsonl`]: records.map((record, n) => `${line(record, n)}\n`).join("") });
  page = await openPage(browser, daemon, `/s/${session}`);
  const lost = page.locator(".message.user", { hasText: "Not answered" });
  await until(async () => (await lost.count()) === 2);
  await prompt("slow third");
  await page.locator(".answer", { hasText: "First part." }).waitFor();
  assert.equal(await lost.count(), 2);
  daemon.provider.release();
  await page.locator(".answer-facts").waitFor();
  assert.equal(await lost.count(), 2);
});

test("a selection in a paragraph that grows stays", async () => {
  await openSession("Selected");
  await prompt("steady answer");
  await page.locator(".answer", { hasText: "More words. More words." }).waitFor();
  const selected = () => page.evaluate(() => getSelection().toString());
  const length = await page.evaluate(() => {
    const text = document.querySelector(".answer p").firstChild;
    getSelection().setBaseAndExtent(text, 0, text, 10);
    return text.data.length;
  });
  assert.equal(await selected(), "First part");
  await page.waitForFunction((before) => document.querySelector(".answer").textContent.length > before + 20, length);
  assert.equal(await selected(), "First part");
  daemon.provider.release();
  await page.locator(".answer-facts").waitFor();
  assert.equal(await page.locator(".answer p").innerText().then((text) => text.replace(/More words\. /g, "")), "First part. Second part.");
});

test("the current session is marked where colours are forced", async () => {
  const id = await daemon.newSession("Current");
  page = await openPage(browser, daemon, `/s/${id}`, { forcedColors: "active" });
  const border = (selector) => page.locator(selector).first().evaluate((link) => getComputedStyle(link).borderLeftWidth);
  await page.locator(".sessions a[aria-current]").waitFor();
  assert.deepEqual([await border(".sessions a[aria-current]"), await border(".sessions a:not([aria-current])")], ["4px", "0px"]);
});

test("titles can be read whole, and the words below the list are in line", async () => {
  const title = "A long title ".repeat(14).trim();
  await openSession(title);
  await page.locator(`h1[title="${title}"]`).waitFor();
  await page.locator(`.sessions a[aria-current] .session-title[title="${title}"]`).waitFor();
  const bottoms = await page.locator(".sidebar-foot > *").evaluateAll((all) =>
    all.map((element) => {
      const range = document.createRange();
      range.selectNodeContents(element);
      return range.getBoundingClientRect().bottom;
    }));
  assert.ok(Math.max(...bottoms) - Math.min(...bottoms) < 0.1, bottoms.join(", "));
});

test("a filtered log keeps its place when something new comes, and reads only that", async () => {
  const id = await daemon.newSession("Filtered and growing");
  for (let n = 0; n < 12; n++) await daemon.ask(id, `${"a long prompt\n".repeat(10)} ${n}`);
  page = await openPage(browser, daemon, `/s/${id}`);
  await page.locator(".answer-facts").last().waitFor();
  await page.getByLabel("Show").selectOption("prompts");
  await page.getByText("12 prompts", { exact: true }).waitFor();
  const log = page.locator(".log");
  const top = () => log.evaluate((element) => element.scrollTop);
  await log.evaluate((element) => {
    element.scrollTop = 100;
    window.first = document.querySelector(".log .message");
    window.emptied = 0;
    new MutationObserver(() => { window.emptied += Number(!document.querySelector(".log .message")); }).observe(element, { childList: true, subtree: true });
  });
  const asked = [];
  page.on("request", (request) => request.url().includes("/messages?") && asked.push(new URL(request.url()).searchParams.get("limit")));
  await daemon.ask(id, "one from elsewhere");
  await page.getByText("13 prompts", { exact: true }).waitFor();
  assert.equal(await top(), 100);
  assert.deepEqual(await page.evaluate(() => [window.first.isConnected, window.emptied]), [true, 0]);
  assert.deepEqual([...new Set(asked)], ["40"]);
  // At the end it follows.
  await log.evaluate((element) => element.scrollTo(0, element.scrollHeight));
  await daemon.ask(id, `${"a long prompt\n".repeat(10)} at last`);
  await page.getByText("14 prompts", { exact: true }).waitFor();
  await until(() => log.evaluate((element) => element.scrollHeight - element.scrollTop - element.clientHeight < 2));
  assert.deepEqual(page.problems, []);
});

test("a record is left with Escape, with G, with a prompt and with a jump to one", async () => {
  const id = await daemon.newSession("Leaving a record");
  for (let n = 0; n < 5; n++) await daemon.ask(id, `${"a long prompt\n".repeat(30)} ${n}`);
  const { messages } = await daemon.api("GET", `/v1/sessions/${id}/messages`);
  const record = messages.at(-1).record_id;
  page = await openPage(browser, daemon, `/s/${id}/r/${record}`);
  const panel = page.locator(".provenance");
  const ways = {
    escape: () => page.keyboard.press("Escape"),
    end: () => page.keyboard.press("Shift+G"),
    jump: async () => {
      await page.keyboard.press("g");
      await page.keyboard.press("o");
      await page.getByRole("dialog").locator(".outline button").nth(1).click();
      await until(() => page.locator(".message.user", { hasText: / 3$/ }).evaluate((message) => message === document.activeElement));
    },
    prompt: async () => {
      await prompt("one more");
      await page.locator(".message.user", { hasText: "one more" }).waitFor();
    },
  };
  for (const [name, leave] of Object.entries(ways)) {
    await page.goto(daemon.address(`/s/${id}/r/${record}`));
    await panel.waitFor();
    await page.locator(".message.target").waitFor();
    // The entry of the chain that the address names leads to the place again.
    await page.locator(".log").evaluate((log) => log.scrollTo(0, log.scrollHeight));
    await panel.locator("a[aria-current]").click();
    await until(() => page.locator(".message.target").evaluate((message) => message.getBoundingClientRect().bottom > 100 && message === document.activeElement));
    await leave();
    await panel.waitFor({ state: "detached" });
    assert.equal(new URL(page.url()).pathname, `/s/${id}`, name);
  }
  await page.setViewportSize({ width: 320, height: 640 });
  await page.goBack();
  assert.ok((await panel.boundingBox()).height <= 160);
  assert.deepEqual(page.problems, []);
});

test("a summary of the older part has its name, and the record that began it leads to it", async () => {
  const session = "019b0000-0000-7000-8000-000000000020";
  const answer = { model: "local", finish: "stop", duration_ms: 1 };
  const records = [
    { type: "session", session, shell: null },
    { type: "user", prompt: "first", rendered: "first", shell: null, cwd: "/", ids: { prompt: "p1" } },
    { type: "assistant", text: "An answer.", ...answer, ids: { prompt: "p1", turn: "r1" } },
    { type: "compaction", prompts: 1, ids: { prompt: "p2" } },
    { type: "waiting_prompt", prompt: "between", ids: { prompt: "p3" } },
    { type: "assistant", text: "What was said.", ...answer, ids: { prompt: "p2", turn: "r2" } },
    { type: "user", prompt: "between", rendered: "between", shell: null, cwd: "/", ids: { prompt: "p3" } },
    { type: "assistant", text: "Another answer.", ...answer, ids: { prompt: "p3", turn: "r3" } },
  ];
  const ids = records.map((_, n) => `019b0000-0000-7000-8000-00000000002${n + 1}`);
  const line = (record, n) => JSON.stringify({ v: 2, id: ids[n], timestamp_ms: 1764170000000 + n, ...record });
  await daemon.addJournal({ [`${session}.jsonl`]: records.map((record, n) => `${line(record, n)}\n`).join("") });
  page = await openPage(browser, daemon, `/s/${session}/r/${ids[3]}`);
  const summary = page.locator(".message.assistant.target");
  await summary.getByRole("heading", { name: "Summary of the older part" }).waitFor();
  await summary.getByText("What was said.").waitFor();
  await page.locator(".chain").getByText("Older part summarized 1 prompt").waitFor();
  assert.deepEqual(await page.locator(".message.assistant h2").allInnerTexts(), ["Answer", "Summary of the older part", "Answer"]);
});

test("decisions and results in a chain are words", async () => {
  const id = await openSession("Chain in words");
  await prompt("read the log");
  await page.locator(".answer-facts").nth(1).waitFor();
  await page.locator(".message.user a.time").click();
  const chain = page.locator(".chain");
  await chain.getByText("notes.read_log: approved by a rule").waitFor();
  await chain.getByText("notes.read_log: done").waitFor();
  assert.ok(id);
});

test("while an answer streams there is a way back to the end", async () => {
  await openSession("Back to the end");
  await prompt(`${"a long prompt\n".repeat(40)} steady answer`);
  await page.locator(".answer", { hasText: "More words." }).waitFor();
  const back = page.getByRole("button", { name: /To the end|new ↓/ });
  const isAtEnd = () => page.locator(".log").evaluate((log) => log.scrollHeight - log.scrollTop - log.clientHeight < 32);
  await until(isAtEnd);
  assert.equal(await back.count(), 0);
  await page.locator(".log").evaluate((log) => log.scrollTo(0, 0));
  await back.click();
  await until(isAtEnd);
  await back.waitFor({ state: "detached" });
  daemon.provider.release();
});

test("why an answer failed is said once, and what to do about it beside the prompt", async () => {
  await openSession("Failing once");
  await prompt("this fails");
  await page.getByRole("alert").getByText("The last answer failed: try again").waitFor();
  assert.equal(await page.locator("main").getByText("out of order").count(), 1);
});

test("single characters are keys unless that is switched off", async () => {
  await openSession("Without letters");
  const help = page.getByRole("dialog", { name: "Keys" });
  await page.locator(".log").focus();
  await page.keyboard.press("?");
  await help.getByLabel("Use single characters as keys").uncheck();
  await page.keyboard.press("Escape");
  await help.waitFor({ state: "detached" });
  for (const isReloaded of [false, true]) {
    if (isReloaded) await page.reload();
    await page.getByText("live", { exact: true }).waitFor();
    await page.locator(".log").focus();
    await page.keyboard.type("?cf/");
    assert.equal(await page.evaluate(() => document.activeElement.className), "log");
    assert.equal(await help.count(), 0);
  }
  await page.getByRole("button", { name: "Keys" }).click();
  await help.getByLabel("Use single characters as keys").check();
});

test("Enter in the search opens the first session, and Escape empties it", async () => {
  const id = await daemon.newSession("The capybara session");
  page = await openPage(browser, daemon);
  await page.locator("#search").fill("capybara");
  await page.keyboard.press("Enter");
  await page.waitForURL((address) => address.pathname === `/s/${id}`);
  // A session that opens takes the focus.
  await until(async () => await focused() === "prompt");
  await page.locator("#search").focus();
  await page.keyboard.press("Escape");
  assert.equal(await page.locator("#search").inputValue(), "");
  assert.equal(await focused(), "search");
});

test("Enter in the search opens nothing while the list is not that of its words", async () => {
  await daemon.newSession("The okapi session");
  await daemon.newSession("Another session, made last");
  page = await openPage(browser, daemon);
  await page.locator(".sessions a").nth(1).waitFor();
  const held = [];
  await page.route("**/v1/sessions?*search=okapi*", (route) => new Promise((resolve) => held.push({ route, resolve })));
  const answerFirst = async (act) => {
    const { route, resolve } = held.shift();
    await act(route);
    resolve();
  };
  await page.locator("#search").fill("okapi");
  await page.keyboard.press("Enter");
  await until(() => held.length === 1);
  // Overtaken by other words, whose answer is not there either.
  await page.keyboard.type(" session");
  await until(() => held.length === 2);
  const overtaken = page.waitForEvent("requestfinished");
  await answerFirst((route) => route.continue());
  await overtaken;
  // What the page does with the answer is done once two more answers were read.
  for (let n = 0; n < 2; n++) await page.evaluate(() => fetch("/health").then((response) => response.text()));
  assert.equal(new URL(page.url()).pathname, "/");
  await answerFirst((route) => route.abort());
  await page.locator(".sessions .problem").waitFor();
  assert.equal(new URL(page.url()).pathname, "/");
  // The list could not be read, and the first session in it is another one.
  await page.keyboard.press("Enter");
  await until(() => held.length === 1);
  await answerFirst((route) => route.abort());
  for (let n = 0; n < 2; n++) await page.evaluate(() => fetch("/health").then((response) => response.text()));
  assert.equal(new URL(page.url()).pathname, "/");
  await page.keyboard.press("Enter");
  await until(() => held.length === 1);
  await answerFirst((route) => route.continue());
  await page.getByRole("heading", { name: "The okapi session" }).waitFor();
});

test("a summary is called one as soon as it is there", async () => {
  const id = await openSession("Summarized");
  for (const words of ["alpha", "beta"]) await daemon.ask(id, words);
  await page.locator(".answer-facts").nth(1).waitFor();
  await daemon.command("session", "compact", id);
  await page.getByRole("heading", { name: "Summary of the older part" }).waitFor();
  assert.equal(await page.getByRole("heading", { name: "Answer", exact: true }).count(), 2);
});

test("the filter of prompts shows one that waits, and then that it has begun", async () => {
  const id = await openSession("Filtered and waiting");
  const send = (content) => daemon.api("POST", `/v1/sessions/${id}/messages`, { content });
  await page.locator("#log-filter").selectOption("prompts");
  await send("slow answer first");
  await page.getByText("1 prompt", { exact: true }).waitFor();
  await send("slow answer second");
  await page.locator(".message.waiting").getByText("waits for the previous answer").waitFor();
  await page.getByText("2 prompts", { exact: true }).waitFor();
  daemon.provider.release();
  await page.locator(".message.waiting").getByText("waits for the previous answer").waitFor({ state: "detached" });
  await until(async () => {
    daemon.provider.release();
    return (await page.locator(".message.user").count()) === 2;
  });
  assert.equal(await page.locator(".message").count(), 2);
  assert.deepEqual(page.problems, []);
});

test("an address that stands for nothing shows that in the page", async () => {
  page = await openPage(browser, daemon);
  const response = await page.goto(daemon.address("/nope/x"));
  assert.equal(response.status(), 404);
  await page.getByRole("heading", { name: "There is no such page" }).waitFor();
  for (const [path, accept] of [["/nope/x", "*/*"], ["/v1/nope", "text/html"]]) {
    const { status, headers } = await fetch(`http://127.0.0.1:${daemon.port}${path}`, { headers: { accept } });
    assert.notEqual(status, 200, path);
    assert.match(headers.get("content-type"), /json/, path);
  }
});

test("a folded output says how much of it is there", async () => {
  const session = "019b0000-0000-7000-8000-000000000030";
  const outputs = ["x".repeat(4050), "y\n".repeat(30).trim(), `${"z".repeat(99)}\n`.repeat(60), "x".repeat(9000)];
  const calls = outputs.map((_, n) => ({ id: `c${n}`, name: "notes.read_log", arguments: "{}" }));
  const records = [
    { type: "session", session, shell: null },
    { type: "user", prompt: "read", rendered: "read", shell: null, cwd: "/", ids: { prompt: "p1" } },
    { type: "assistant", text: "", calls, model: "local", finish: "tool_calls", duration_ms: 1, ids: { prompt: "p1", turn: "r1" } },
    ...outputs.map((text, n) => (
      { type: "tool", call: `c${n}`, name: "notes.read_log", status: "success", text, bytes: text.length, duration_ms: 1, ids: { prompt: "p1" } })),
  ];
  const line = (record, n) => JSON.stringify({ v: 2, id: `019b0000-0000-7000-8000-00000000003${n + 1}`, timestamp_ms: 1764170000000 + n, ...record });
  await daemon.addJournal({ [`${session}.jsonl`]: records.map((record, n) => `${line(record, n)}\n`).join("") });
  page = await openPage(browser, daemon, `/s/${session}`);
  const summaries = page.locator(".call > summary");
  await summaries.nth(3).waitFor();
  for (const summary of await summaries.all()) await summary.click();
  await page.getByRole("button", { name: /^Load/ }).nth(1).waitFor();
  assert.deepEqual(await page.getByRole("button", { name: /^Show all/ }).allInnerTexts(), [
    "Show all 4,050 characters", "Show all 30 lines", "Show all 41 loaded lines", "Show all 4,096 loaded characters",
  ]);
  // What the address names is shown whole, also in a call that was open before.
  const call = page.locator("details.call").nth(1);
  await call.getByRole("link", { name: "Show the record" }).click();
  await call.getByRole("button", { name: "Fold" }).waitFor();
});
