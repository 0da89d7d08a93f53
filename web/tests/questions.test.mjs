import assert from "node:assert/strict";
import { after, before, test } from "node:test";
import { Daemon, axeViolations, openPage, startBrowser, stopAll, until } from "./harness.mjs";
import { Terminal } from "./terminal.mjs";

let daemon, browser, terminal;
before(async () => {
  daemon = await Daemon.start();
  browser = await startBrowser();
  terminal = await Terminal.start(daemon);
});
after(() => stopAll(daemon, browser, terminal));

/** Runs `aish-helper web --approve` in the terminal and opens the page. Returns the code that the page shows. */
/** The address that was printed last: the screen has it until it is cleared. */
let printed;

async function beginPairing(page) {
  await terminal.line("clear; aish-helper web --approve --print");
  // The address is longer than a row.
  const before = printed;
  printed = await until(async () => {
    const text = (await terminal.tmux("capture-pane", "-p", "-J")).replace(/\n/g, "");
    const found = /http:\/\/127\.0\.0\.1:\d+(\/\S*)?#p=[0-9a-f]{64}/.exec(text);
    return found && found[0] !== before && found[0];
  });
  const address = new URL(printed);
  address.port = String(daemon.pagePort);
  await page.goto(address.href);
  const code = page.locator(".sign-in .pairing-code");
  await code.waitFor();
  assert.equal(new URL(page.url()).hash, "");
  return code.textContent();
}

const region = (page) => page.getByRole("region", { name: "Open questions" });
const question = (page) => page.getByRole("group", { name: "Question about notes.write_note" });

async function ask(page) {
  await page.locator("#prompt").fill("please use the tool");
  await page.locator("#prompt").press("Enter");
  await question(page).waitFor();
}

test("a paired browser approves and denies, and one that is not paired cannot", async () => {
  const id = await daemon.newSession("With questions");
  const other = await openPage(browser, daemon, `/s/${id}`);

  // The person sees the same code in both places.
  const page = await (await browser.newContext({ viewport: { width: 1100, height: 800 } })).newPage();
  const code = await beginPairing(page);
  assert.match(code, /^[2-9A-HJ-NP-Z]{4}-[2-9A-HJ-NP-Z]{4}$/);
  assert.deepEqual(await axeViolations(page), []);
  await terminal.shows(code);
  assert.ok(!(await page.content()).includes("With questions"));
  await terminal.pressUntil("y", "the browser is paired");
  await page.locator(".layout").waitFor();
  await page.getByText("This browser may answer questions now.").waitFor();
  await page.goto(daemon.address(`/s/${id}`));

  // Approved with the key, which counts only for the question that has the focus and not immediately.
  await ask(page);
  const approve = question(page).getByRole("button", { name: "Approve" });
  await approve.waitFor();
  // As in the terminal, with what the server says about a new tool.
  await question(page).getByText("the server was not used before, nor was this tool").waitFor();
  await question(page).getByText("Writes a note").waitFor();
  await region(other).getByText("aish web --approve").waitFor();
  assert.equal(await region(other).getByRole("button", { name: /Approve|Deny/ }).count(), 0);
  await question(other).focus();
  await other.keyboard.press("y");
  assert.deepEqual(await axeViolations(page), []);
  assert.deepEqual(await axeViolations(other), []);
  await until(() => approve.isEnabled());
  assert.deepEqual(await axeViolations(page), []);
  await page.locator("body").press("y");
  assert.ok(await question(page).isVisible());
  await question(page).focus();
  await page.keyboard.press("Control+y");
  await page.evaluate(() => {
    const event = { key: "y", bubbles: true, repeat: true };
    document.activeElement.dispatchEvent(new KeyboardEvent("keydown", event));
  });
  assert.ok(await question(page).isVisible());
  // The command for the terminal, above the question, is part of it.
  await region(page).getByRole("button", { name: "Copy" }).focus();
  await page.keyboard.press("Control+y");
  assert.ok(await question(page).isVisible());
  await page.keyboard.press("y");
  await question(page).waitFor({ state: "detached" });
  await question(other).waitFor({ state: "detached" });
  const calls = page.locator("details.call");
  await calls.first().getByText("done").waitFor();
  await page.locator(".message.assistant").getByText("The tool has answered.").first().waitFor();

  // Denied with the button and a reason. The key n begins no session meanwhile.
  await ask(page);
  assert.equal(await question(page).getByText("Writes a note").count(), 0);
  await question(page).focus();
  const reason = question(page).getByRole("textbox");
  await reason.fill("any other note");
  await until(() => question(page).getByRole("button", { name: "Deny" }).isEnabled());
  await question(page).getByRole("button", { name: "Deny" }).click();
  await question(page).waitFor({ state: "detached" });
  await calls.nth(1).getByText("denied").waitFor();
  assert.equal(new URL(page.url()).pathname, `/s/${id}`);
  const records = await daemon.api("GET", `/v1/sessions/${id}/messages`);
  assert.ok(JSON.stringify(records).includes("any other note"));

  // A question that has just come takes no key, and its key n begins no session. On a busy machine it may not be new any more.
  for (let isNew = false; !isNew; ) {
    await ask(page);
    isNew = await question(page).evaluate((element) => {
      if (![...element.querySelectorAll("button")].some(({ disabled }) => disabled)) return false;
      element.focus();
      for (const key of ["y", "n"]) element.dispatchEvent(new KeyboardEvent("keydown", { key, bubbles: true, cancelable: true }));
      return true;
    });
    if (!isNew) {
      await page.getByRole("button", { name: "Cancel" }).click();
      await question(page).waitFor({ state: "detached" });
    }
  }
  assert.ok(await question(page).isVisible());

  // The pairing ends; the page says so and continues without it.
  await until(() => approve.isEnabled());
  await daemon.command("serve", "unpair");
  await region(page).getByText("aish web --approve").waitFor();
  assert.equal(await question(page).getByRole("button").count(), 0);
  assert.ok(await page.locator(".layout").isVisible());
  await page.getByRole("button", { name: "Cancel" }).click();
  await question(page).waitFor({ state: "detached" });
  assert.equal(await daemon.api("GET", "/v1/sessions").then((list) => list.sessions.length), 1);
  await page.context().close();
  await other.context().close();
});

test("what only the terminal can approve offers no pairing", async () => {
  const id = await daemon.newSession("Harmful");
  const page = await openPage(browser, daemon, `/s/${id}`);
  await page.locator("#prompt").fill("delete the old files");
  await page.locator("#prompt").press("Enter");
  const asked = page.getByRole("group", { name: "Question about shell" });
  await asked.waitFor();
  const [title, first] = await asked.locator("h2, p, dl").allTextContents();
  assert.match(title, /shell/);
  assert.match(first, /^Only the terminal can approve this: /);
  assert.equal(await region(page).getByText("pair this browser").count(), 0);
  await region(page).getByText("Answer in the terminal:").waitFor();
  assert.equal(await asked.getByText("policy.default").count(), 0);
  await page.getByRole("button", { name: "Cancel" }).click();
  await asked.waitFor({ state: "detached" });
  await page.context().close();
});

test("a pairing that is refused in the terminal leaves the browser without access", async () => {
  const page = await (await browser.newContext()).newPage();
  await beginPairing(page);
  await terminal.pressUntil("n", "is not paired");
  await page.locator("main").getByText("refused in the terminal").waitFor();
  await page.getByRole("heading", { name: "Open this page from a terminal" }).waitFor();
  assert.deepEqual(await page.evaluate(() => Object.keys(sessionStorage)), []);
  await page.context().close();
});

test("a long question is approved only after its end was shown", async () => {
  const page = await (await browser.newContext({ viewport: { width: 700, height: 500 } })).newPage();
  await beginPairing(page);
  await terminal.pressUntil("y", "the browser is paired");
  await page.locator(".layout").waitFor();
  const id = await daemon.newSession("Long");
  await page.goto(daemon.address(`/s/${id}`));
  await page.locator("#prompt").fill("please use the tool for long text");
  await page.locator("#prompt").press("Enter");
  await question(page).waitFor();
  const approve = question(page).getByRole("button", { name: "Approve" });
  await page.getByText("Read the question to its end first.").waitFor();
  assert.ok(await approve.isDisabled());
  await question(page).focus();
  await page.keyboard.press("y");
  assert.ok(await question(page).isVisible());
  await approve.scrollIntoViewIfNeeded();
  await until(() => approve.isEnabled());
  await approve.click();
  await question(page).waitFor({ state: "detached" });
  await page.locator(".message.assistant").getByText("The tool has answered.").waitFor();
  await page.context().close();
});

test("a prompt without a terminal waits for the paired page that shows its session", async () => {
  const page = await (await browser.newContext({ viewport: { width: 1100, height: 800 } })).newPage();
  await beginPairing(page);
  await terminal.pressUntil("y", "the browser is paired");
  await page.locator(".layout").waitFor();
  const run = (words) => terminal.line(`clear; setsid -w aish-helper ask --shell s9 -- ${words} </dev/null; print code-$?`);
  await run("hello");
  await terminal.shows("code-0");
  const { id } = (await daemon.api("GET", "/v1/sessions")).sessions[0];
  await page.goto(daemon.address(`/s/${id}`));
  await page.getByText("live", { exact: true }).waitFor();
  await run("please use the tool");
  await question(page).waitFor();
  await terminal.shows("waits for an answer in the paired browser");
  // The page is reloaded, and the question is still there.
  await page.reload();
  await question(page).waitFor();
  const approve = question(page).getByRole("button", { name: "Approve" });
  await until(() => approve.isEnabled());
  await approve.click();
  await terminal.shows("The tool has answered.");
  await terminal.shows("code-0");
  // Without the page, no terminal means no.
  await page.context().close();
  await run("please use the tool");
  await terminal.shows("denied: no terminal to ask on");
  await terminal.shows("code-4");
});

test("after an answer the focus is at the next question, or in the prompt", async () => {
  const page = await (await browser.newContext({ viewport: { width: 1100, height: 900 } })).newPage();
  await beginPairing(page);
  await terminal.pressUntil("y", "the browser is paired");
  await page.locator(".layout").waitFor();
  const id = await daemon.newSession("Twice");
  await page.goto(daemon.address(`/s/${id}`));
  await page.locator("#prompt").fill("please use the tool twice");
  await page.locator("#prompt").press("Enter");
  const answerable = question(page).first().getByRole("button", { name: "Approve" });
  const press = async (key) => {
    await until(() => answerable.isEnabled());
    await page.keyboard.press(key);
  };
  await question(page).first().focus();
  const first = await question(page).first().elementHandle();
  await press("y");
  await until(() => first.evaluate((element) => !element.isConnected));
  await until(() => page.evaluate(() => document.activeElement.matches(".question")));
  await press("n");
  await question(page).first().waitFor({ state: "detached" });
  await until(() => page.evaluate(() => document.activeElement.id === "prompt"));
  assert.equal(new URL(page.url()).pathname, `/s/${id}`);
  assert.equal(await page.locator("#prompt").inputValue(), "");
  await page.context().close();
});
