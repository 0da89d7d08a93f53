import assert from "node:assert/strict";
import { after, before, test } from "node:test";
import { Daemon, axeViolations, openPage, startBrowser, stopAll, until } from "./harness.mjs";
import { LONG_SESSION, longSession, recordId } from "./long-session.mjs";

let daemon, browser, session;
before(async () => {
  daemon = await Daemon.start({ journal: { [`${LONG_SESSION}.jsonl`]: longSession(120) } });
  browser = await startBrowser();
  session = await daemon.newSession("Active");
  await daemon.ask(session, "read the log for \u200b<b>me</b>");
});
after(() => stopAll(daemon, browser));

const rows = (page) => page.locator(".entries > li");

test("the activity shows what was done, who decided, and where it is recorded", async () => {
  const page = await openPage(browser, daemon, "/activity");
  const call = rows(page).filter({ hasText: "Tool call" }).first();
  await call.getByText("notes.read_log").waitFor();
  await call.getByText("by a rule").waitFor();
  assert.ok(await call.locator("time").getAttribute("datetime"));
  await rows(page).filter({ hasText: "Prompt" }).getByText("read the log for ⟨U+200B⟩<b>me</b>").waitFor();
  await rows(page).filter({ hasText: "MCP server" }).first().waitFor();
  assert.deepEqual(await axeViolations(page), []);
  // What is done meanwhile comes by itself.
  await daemon.ask(session, "something new");
  await rows(page).filter({ hasText: "something new" }).waitFor();
  await call.getByRole("link", { name: "Active" }).waitFor();
  await call.getByRole("link", { name: "Record" }).click();
  await page.locator("details.call.target").waitFor();
  assert.deepEqual(page.problems, []);
  await page.context().close();
});

test("the activity is restricted to a type, and older ones are added once each", async () => {
  const page = await openPage(browser, daemon, "/activity");
  await rows(page).first().waitFor();
  await page.getByLabel("Type").selectOption("prompt");
  await until(async () => (await rows(page).count()) === 50);
  assert.deepEqual(await rows(page).locator("strong").evaluateAll((all) => [...new Set(all.map((kind) => kind.innerText.trim()))]), ["Prompt"]);
  await page.getByRole("button", { name: "Show more" }).click();
  const prompts = (await daemon.api("GET", "/v1/activity?limit=1000&type=prompt")).activities.length;
  await until(async () => (await rows(page).count()) === prompts);
  await page.getByRole("button", { name: "Show more" }).waitFor({ state: "detached" });
  const links = await rows(page).getByRole("link", { name: "Record" }).evaluateAll((all) => all.map((link) => link.pathname));
  assert.equal(new Set(links).size, prompts);
  assert.ok(links.includes(`/s/${LONG_SESSION}/r/${recordId(1)}`));
  await page.getByLabel("Type").selectOption("model");
  await page.getByText("There is no activity of this type.").waitFor();
  await page.context().close();
});
