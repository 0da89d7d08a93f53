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

test("a prompt that waits for the answer before it is shown in every tab until its turn, once", async () => {
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
    await waiting(tab).getByText("waits for the answer before it").waitFor();
    await waiting(tab).getByText("second while the first is answered").waitFor();
    assert.match(await tab.locator("article.message").last().getAttribute("class"), /waiting/);
  }
  daemon.provider.release();
  for (const tab of tabs) {
    await tab.locator(".message.assistant").nth(1).getByText("Second part.").waitFor();
    await waiting(tab).waitFor({ state: "detached" });
    assert.deepEqual(await prompts(tab), ["slow answer first", "second while the first is answered"]);
  }
  // One that waits when the daemon ends was not answered. It stays in its place and says so, also in a page that is opened later.
  await prompt("slow answer again");
  await page.locator(".message.assistant").nth(2).getByText("First part.").waitFor();
  await prompt("never to be answered");
  for (const tab of tabs) await waiting(tab).getByText("waits for the answer before it").waitFor();
  await daemon.kill();
  await daemon.launch();
  for (const tab of tabs) await waiting(tab).getByText("Not answered").waitFor();
  await daemon.ask(id, "after the crash");
  await other.reload();
  for (const tab of tabs) {
    await tab.locator(".prompt-text", { hasText: "after the crash" }).waitFor();
    await waiting(tab).getByText("Not answered").waitFor();
    assert.deepEqual((await prompts(tab)).slice(2), ["slow answer again", "never to be answered", "after the crash"]);
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
  await page.getByText("Prompts: 2").waitFor();
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
    new MutationObserver(() => window.told.push(region.textContent)).observe(region, { childList: true, characterData: true, subtree: true });
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
  // A record that is no message is shown where it is in the session.
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
  const only = async (kind, count) => {
    await select.selectOption({ label: kind });
    await page.locator(".log [role=status]", { hasText: `${kind}: ${count || "none"}` }).waitFor();
    assert.equal(await messages.count(), count);
  };
  await only("Prompts", 30);
  assert.equal(await page.locator(".message.user").count(), 30);
  await page.getByRole("button", { name: "Show earlier" }).click();
  await messages.first().getByText("alpha").waitFor();
  assert.equal(await messages.count(), 8);
  await only("Tool calls", 1);
  await messages.getByText("notes.read_log").waitFor();
  await only("Commands", 0);
  await only("Errors", 1);
  await messages.getByText("The answer failed.").waitFor();
  // A record is shown among the messages around it.
  await messages.locator("a.time").click();
  await page.locator(".message.assistant.target").waitFor();
  await messages.nth(1).waitFor();
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
  await page.getByText("No session is like that.").waitFor();
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
