import assert from "node:assert/strict";
import { after, afterEach, before, test } from "node:test";
import { readFileSync } from "node:fs";
import { Daemon, axeViolations, openPage, startBrowser, stopAll, until } from "./harness.mjs";
import { Terminal } from "./terminal.mjs";

/** Has the form of a token, so that it is replaced in what is shared. */
const SECRET = "ghp_0aB1cD2eF3gH4iJ5kL6mN7oP8qR9sT0uV1wX";

let daemon, browser, page, terminal;
before(async () => {
  daemon = await Daemon.start();
  browser = await startBrowser();
});
afterEach(async () => {
  await page?.context().close();
  page = null;
});
after(() => stopAll(daemon, browser, terminal));

/** A session with an answer and a tool call, on the page. */
async function openSession(title) {
  const id = await daemon.newSession(title);
  await daemon.ask(id, `read the log of ${daemon.home} with ${SECRET} <script>window.hacked = 1</script>`);
  page = await openPage(browser, daemon, `/s/${id}`);
  await page.getByText("live", { exact: true }).waitFor();
  return id;
}

const openDialog = async () => {
  await page.getByRole("button", { name: "Share", exact: true }).click();
  return page.getByRole("dialog");
};

/** Clicks the button of a dialog once the preview is there. */
const publish = (dialog) => dialog.getByRole("button", { name: "Share", exact: true }).click();

test("a session is shared after a preview, and its page is removed again", async () => {
  const id = await openSession("To be shared");
  const before = page.url();
  const dialog = await openDialog();
  const preview = dialog.locator(".share-preview");
  await preview.getByText(/^To be shared: \d+ messages$/).waitFor();
  await preview.getByText(/Left out or replaced: 1 secret, .*1 output/).waitFor();
  assert.deepEqual((await daemon.api("GET", "/v1/shares")).shares, []);
  assert.deepEqual(await axeViolations(page), []);
  await publish(dialog);
  const link = dialog.getByRole("link");
  await link.waitFor();
  await until(() => link.evaluate((element) => element === document.activeElement));
  assert.deepEqual(await axeViolations(page), []);
  const address = await link.innerText();
  assert.match(address, new RegExp(`^${daemon.address("/share/")}[0-9a-f]+$`));
  const opens = page.context().waitForEvent("page");
  await link.click();
  const shared = await opens;
  await shared.waitForLoadState();
  assert.equal(shared.url(), address);
  const html = await shared.content();
  assert.ok(html.includes("The tool has answered."));
  for (const absent of [SECRET, daemon.home, "<script", id, "of the log with some words"]) {
    assert.ok(!html.includes(absent), absent);
  }
  await shared.close();
  await page.context().grantPermissions(["clipboard-read", "clipboard-write"]);
  await dialog.getByRole("button", { name: "Copy the address" }).click();
  await dialog.getByText("Copied").waitFor();
  assert.equal(await page.evaluate(() => navigator.clipboard.readText()), address);
  await page.keyboard.press("Escape");
  await page.locator(".facts").getByText("shared", { exact: true }).waitFor();
  await page.locator(".sessions").getByText("· shared").waitFor();
  // The dialog now shows the page that there is.
  await openDialog();
  await dialog.getByRole("link", { name: address }).waitFor();
  await dialog.getByRole("button", { name: "Remove the page" }).click();
  await page.getByText("The session is no longer shared.").waitFor();
  await page.locator(".facts").getByText("shared", { exact: true }).waitFor({ state: "detached" });
  assert.equal((await fetch(address)).status, 404);
  assert.equal(page.url(), before);
  assert.deepEqual(page.problems, []);
});

test("output is shared only if it is asked for", async () => {
  await openSession("With output");
  const dialog = await openDialog();
  const preview = dialog.locator(".share-preview");
  await preview.getByText("1 output").waitFor();
  await dialog.getByLabel("with the output of tools and commands").check();
  await preview.getByText("Left out or replaced").waitFor();
  await preview.getByText("1 output").waitFor({ state: "detached" });
  await publish(dialog);
  const html = await (await fetch(await dialog.getByRole("link").innerText())).text();
  assert.ok(html.includes("line 1 of the log with some words"));
  assert.ok(!html.includes(SECRET));
});

test("a session that has changed since the preview is shown again before it is shared", async () => {
  const id = await openSession("Changing");
  const dialog = await openDialog();
  const words = dialog.locator(".share-preview").getByText(/messages$/);
  const first = await words.innerText();
  await daemon.ask(id, "something new");
  await publish(dialog);
  await dialog.getByRole("alert").getByText("the session has changed since the preview").waitFor();
  await until(async () => (await words.innerText()) !== first);
  await publish(dialog);
  await dialog.getByRole("link").waitFor();
  assert.deepEqual(page.problems, []);
});

test("the list of shares links to pages and sessions, and removes", async () => {
  await page?.context().close();
  for (const { session_id } of (await daemon.api("GET", "/v1/shares")).shares) {
    await daemon.api("POST", `/v1/sessions/${session_id}/unshare`);
  }
  const id = await openSession("In the list");
  await page.goto(daemon.address("/shares"));
  await page.getByText("No session is shared.").waitFor();
  const { digest } = await daemon.api("POST", `/v1/sessions/${id}/share`, {});
  const { share } = await daemon.api("POST", `/v1/sessions/${id}/share`, { digest });
  await page.reload();
  const entry = page.locator(".shared-session");
  await entry.getByRole("link", { name: daemon.address(share.path) }).waitFor();
  assert.ok((await entry.locator("time").innerText()).includes(String(new Date().getFullYear())));
  assert.deepEqual(await axeViolations(page), []);
  await entry.getByRole("link", { name: "In the list" }).click();
  await page.getByRole("heading", { name: "In the list" }).waitFor();
  await page.goBack();
  await entry.getByRole("button", { name: "Remove the page of In the list" }).click();
  await page.getByText("No session is shared.").waitFor();
  assert.equal((await fetch(daemon.address(share.path))).status, 404);
  assert.deepEqual(page.problems, []);
});

test("a share that was interrupted is listed as such", async () => {
  const id = await openSession("Interrupted");
  const share = {
    id: "0".repeat(32), path: `/share/${"0".repeat(32)}`, session_id: id, title: "Interrupted", created_ms: Date.now(),
    is_published: false, place: "on this machine", is_automatic: false,
  };
  await page.route("**/v1/shares", (route) => route.fulfill({ json: { shares: [share] } }));
  await page.goto(daemon.address("/shares"));
  const entry = page.locator(".shared-session");
  await entry.getByText("Sharing was interrupted").waitFor();
  assert.equal(await entry.getByRole("link").count(), 1);
  await entry.getByRole("button", { name: "Remove the page" }).click();
  await page.getByText("No session is shared.").waitFor();
});

test("sharing works with the keyboard alone", async () => {
  await openSession("By keys");
  await page.getByRole("button", { name: "Share", exact: true }).focus();
  await page.keyboard.press("Enter");
  const dialog = page.getByRole("dialog");
  await dialog.locator(".share-preview").getByText(/messages$/).waitFor();
  // The keys of the page do nothing while a dialog is open.
  const { sessions } = await daemon.api("GET", "/v1/sessions");
  await page.keyboard.press("n");
  const button = dialog.getByRole("button", { name: "Share", exact: true });
  await button.focus();
  await page.keyboard.press("Enter");
  await until(() => dialog.getByRole("link").evaluate((link) => link === document.activeElement));
  for (let n = 0; n < 3; n++) await page.keyboard.press("Tab");
  await page.keyboard.press("Enter");
  await dialog.waitFor({ state: "detached" });
  assert.equal(await page.evaluate(() => document.activeElement?.textContent), "Share");
  assert.equal((await daemon.api("GET", "/v1/sessions")).sessions.length, sessions.length);
  assert.deepEqual(page.problems, []);
});

test("recordings are shared only if they are asked for, and read without a script", async () => {
  terminal = await Terminal.start(daemon);
  await terminal.line("aish-helper record");
  await until(async () => /aish-helper record .*ready> $/.test(await terminal.text()));
  await terminal.line("llm about the recording");
  await terminal.shows("Second part.");
  await terminal.line(`print -r 'token=${SECRET} <b>bold</b>'`);
  await terminal.line("llm about the recording again");
  await until(async () => (await terminal.text()).split("Second part.").length > 2);
  await terminal.line("exit");
  await until(async () => JSON.parse(await daemon.command("recording", "list", "--json")).every(({ ended }) => ended));
  const { id } = (await daemon.api("GET", "/v1/sessions")).sessions[0];
  page = await openPage(browser, daemon, `/s/${id}`);
  const dialog = await openDialog();
  const preview = dialog.locator(".share-preview");
  await preview.getByText(/messages$/).waitFor();
  await dialog.getByLabel("with the recordings of the terminals").check();
  await preview.getByText(/messages, 1 recording \([\d.]+ m?s\)$/).waitFor();
  await preview.getByText("everything that its terminal has shown").waitFor();
  assert.deepEqual(await axeViolations(page), []);
  await publish(dialog);
  const opens = page.context().waitForEvent("page");
  await dialog.getByRole("link").click();
  const shared = await opens;
  await shared.waitForLoadState();
  assert.ok(!(await shared.content()).includes(SECRET));
  const details = shared.locator("details");
  assert.ok(!(await details.locator("pre").isVisible()));
  await details.locator("summary").click();
  await details.getByText("<b>bold</b>").first().waitFor();
  // The link downloads what asciinema plays.
  const downloads = shared.waitForEvent("download");
  await shared.getByRole("link", { name: "Recording 1" }).click();
  const download = await downloads;
  assert.equal(download.suggestedFilename(), "recording-1.cast");
  const [header, ...events] = readFileSync(await download.path(), "utf8").trim().split("\n").map((line) => JSON.parse(line));
  assert.equal(header.version, 3);
  assert.ok(events.some(([, kind, text]) => kind === "m" && text === "llm about the recording"));
  assert.ok(!JSON.stringify(events).includes(SECRET));
  await shared.close();
  assert.deepEqual(page.problems, []);
});

test("a shared page is no wider than a narrow view", async () => {
  const id = await daemon.newSession("Title".repeat(40));
  await daemon.ask(id, "a wide table");
  const { digest } = await daemon.api("POST", `/v1/sessions/${id}/share`, {});
  const { share } = await daemon.api("POST", `/v1/sessions/${id}/share`, { digest });
  page = await openPage(browser, daemon, "/", { viewport: { width: 320, height: 640 } });
  await page.goto(daemon.address(share.path));
  assert.ok((await page.evaluate(() => document.documentElement.scrollWidth - innerWidth)) <= 0);
  const table = page.getByRole("region", { name: "Table" });
  assert.ok(await table.evaluate((box) => box.scrollWidth > box.clientWidth && box.tabIndex === 0));
  await daemon.api("POST", `/v1/sessions/${id}/unshare`);
});

test("the list of shares follows what is shared and removed elsewhere", async () => {
  const id = await daemon.newSession("Shared elsewhere");
  await daemon.ask(id, "hello");
  page = await openPage(browser, daemon, "/shares");
  // Earlier tests may have left shares of other sessions.
  await page.locator(".shared-session").or(page.getByText("No session is shared.")).first().waitFor();
  const entry = page.locator(".shared-session").getByText("Shared elsewhere");
  assert.equal(await entry.count(), 0);
  const { digest } = await daemon.api("POST", `/v1/sessions/${id}/share`, {});
  await daemon.api("POST", `/v1/sessions/${id}/share`, { digest });
  const readAgain = () => page.evaluate(() => window.dispatchEvent(new Event("focus")));
  await readAgain();
  await entry.waitFor();
  await daemon.api("POST", `/v1/sessions/${id}/unshare`);
  await readAgain();
  await entry.waitFor({ state: "detached" });
});

test("a page says who can reach the server", async () => {
  const id = await daemon.newSession("Reached");
  await daemon.ask(id, "hello");
  page = await (await browser.newContext()).newPage();
  // As a server at an address of the network, with a certificate.
  await page.route("https://laptop.example/**", async (route) => {
    const { pathname, search } = new URL(route.request().url());
    if (pathname.endsWith("/events")) return route.abort();
    const headers = Object.entries(await route.request().allHeaders()).filter(([name]) => !/^(:|origin|referer|host|sec-)/.test(name));
    await route.fulfill({ response: await route.fetch({ url: daemon.address(pathname + search), headers: Object.fromEntries(headers) }) });
  });
  for (const [origin, words] of [
    [daemon.address(""), "This server can be reached from this machine only."],
    ["https://laptop.example", "Anyone on the network who knows the address can read it."],
  ]) {
    await page.goto(`${origin}/s/${id}${new URL(await daemon.ticketAddress()).hash}`);
    const dialog = await openDialog();
    await dialog.locator(".share-preview").getByText(`The page is published on this machine. ${words}`).waitFor();
    await publish(dialog);
    await dialog.getByText(`Who knows the address can read the page. ${words}`).waitFor();
    await dialog.getByRole("button", { name: "Remove the page" }).click();
    await dialog.waitFor({ state: "detached" });
  }
  await page.unrouteAll({ behavior: "ignoreErrors" });
});
