import assert from "node:assert/strict";
import { after, afterEach, before, test } from "node:test";
import { Daemon, openLiveSession, openPage, sendPrompt, startBrowser, stopAll, until } from "./harness.mjs";
import { HOSTILE, LONG } from "./provider.mjs";

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

test("an answer streams, and its tokens are shown", async () => {
  await openSession("Streaming");
  await prompt("slow answer please");
  await page.getByText("slow answer please").first().waitFor();
  // The first part is there while the provider holds the second one back.
  const answer = page.locator(".message.assistant .answer");
  await answer.getByText("First part.").waitFor();
  assert.ok(!(await answer.innerText()).includes("Second part."));
  await page.getByRole("button", { name: "Cancel" }).waitFor();
  daemon.provider.release();
  await answer.getByText("More words. Second part.").waitFor();
  await page.locator(".answer-facts").getByText("1,200 tokens in").waitFor();
  await page.locator(".facts").getByText("1,200 tokens in").waitFor();
  await page.locator("[role=status]", { hasText: "Answer: First part." }).waitFor({ state: "attached" });
  assert.equal(await page.locator("#prompt").inputValue(), "");
  assert.deepEqual(page.problems, []);
});

test("an answer can be cancelled", async () => {
  await openSession("Cancelling");
  await prompt("slow one to cancel");
  await page.locator(".answer", { hasText: "First part." }).waitFor();
  await page.getByRole("button", { name: "Cancel" }).click();
  await page.locator(".message .problem", { hasText: "The answer was cancelled." }).waitFor();
  // That is what is announced, and not only its text.
  await page.locator("[role=status] p", { hasText: /^The answer was cancelled. First part./ }).waitFor({ state: "attached" });
  daemon.provider.release();
});

test("the stream resumes after the daemon was killed, without loss or repetition", async () => {
  const id = await openSession("Resuming");
  await prompt("one before the crash");
  await page.locator(".answer-facts").waitFor();
  await prompt("slow one during the crash");
  await page.locator(".message.assistant").nth(1).getByText("First part.").waitFor();
  await page.locator("#prompt").fill("a draft");
  await daemon.kill();
  await page.getByText(/reconnecting…|the daemon does not answer/).first().waitFor();
  // What is typed is not lost when it cannot be sent.
  await page.locator("#prompt").press("Enter");
  await page.getByRole("alert").getByText("the daemon does not answer").waitFor();
  assert.equal(await page.locator("#prompt").inputValue(), "a draft");
  await daemon.launch();
  await page.getByText("live", { exact: true }).waitFor();
  await page.locator(".message .problem", { hasText: "The answer was cut off" }).waitFor();
  // Why the draft was not sent stays until it is.
  assert.ok(await page.getByRole("alert").getByText("the daemon does not answer").isVisible());
  await daemon.ask(id, "one after the crash");
  await page.locator(".message.assistant").nth(2).getByText("First part. Second part.").waitFor();
  assert.equal(await page.locator(".message.user").count(), 3);
  assert.equal(await page.locator(".message.assistant").count(), 3);
  assert.equal(await page.locator("#prompt").inputValue(), "a draft");
  daemon.provider.release();
});

test("hostile text is shown as text", async () => {
  const id = await openSession("<img src=x onerror=alert(1)>\u202Etitle");
  await prompt("hostile <script>window.hacked = 2</script> \u202Eprompt");
  await page.locator(".answer-facts").waitFor();
  const answer = page.locator(".message.assistant .answer");
  const text = await answer.innerText();
  for (const line of HOSTILE.split("\n").filter((line) => line.startsWith("<"))) assert.ok(text.includes(line), line);
  assert.ok(text.includes("⟨U+202E⟩evil⟨U+202C⟩"));
  assert.ok(text.includes("⟨U+009B⟩31m"));
  await page.locator("h1", { hasText: "⟨U+202E⟩title" }).waitFor();
  const links = await answer.locator("a").evaluateAll((all) => all.map((link) => [link.href, link.rel, link.target]));
  assert.deepEqual(links, [
    ["http://192.0.2.1/pixel.png", "noopener noreferrer", "_blank"],
    ["https://example.com/x", "noopener noreferrer", "_blank"],
  ]);
  assert.equal(await page.locator("#app script, #app iframe, #app img, #app style, #app [style]:not(textarea)").count(), 0);
  assert.equal(await page.evaluate(() => window.hacked), undefined);
  await page.goto(daemon.address(`/s/${id}`));
  await page.locator(".answer-facts").waitFor();
  assert.equal(await page.evaluate(() => window.hacked), undefined);
  assert.deepEqual(page.problems, []);
});

test("a question about a tool call is shown with where to answer it", async () => {
  const id = await openSession("Asking");
  await prompt("please use the tool");
  const question = page.getByRole("region", { name: "Open questions" });
  await question.getByText("notes.write_note").waitFor();
  await question.getByText('{"text":"remember <b>this</b>"}').waitFor();
  await question.getByText(`llm --attach ${id.slice(-8)}`).waitFor();
  await page.locator(".sessions").getByText("question open").waitFor();
  // A page that is opened later shows the question too.
  await page.reload();
  await question.getByText("notes.write_note").waitFor();
  await page.getByRole("button", { name: "Cancel" }).click();
  await question.waitFor({ state: "detached" });
});

test("a page that watched a call shows its arguments whole", async () => {
  await openSession("Long arguments");
  await prompt("please use the tool with a long text");
  const call = page.locator("details.call");
  await call.locator("summary").click();
  await until(async () => (await call.locator("pre").innerText()).includes(LONG));
  await page.getByRole("button", { name: "Cancel" }).click();
  assert.deepEqual(page.problems, []);
});

test("a page that watched a long prompt has it whole", async () => {
  await openSession("Long prompt");
  await prompt(`${"many words ".repeat(10_000)}the end`);
  await page.locator(".answer-facts").waitFor();
  await page.locator(".message.user").getByRole("button", { name: "Show all" }).click();
  await page.locator(".prompt-text", { hasText: /the end$/ }).waitFor();
  assert.equal(await page.getByText("not shown").count(), 0);
});

test("a tool call is one line that opens to its arguments and its result", async () => {
  const id = await openSession("Calling");
  await prompt("read the log");
  await page.locator(".answer", { hasText: "The tool has answered." }).waitFor();
  for (const isReloaded of [false, true]) {
    if (isReloaded) await page.goto(daemon.address(`/s/${id}`));
    const call = page.locator("details.call");
    await call.getByText("done").waitFor();
    assert.equal(await call.count(), 1);
    assert.equal(await call.locator("pre").count(), 0);
    await call.locator("summary").click();
    const output = call.locator(".output");
    assert.equal(await output.locator(".ansi-1.ansi-bold").innerText(), "error");
    assert.ok(await output.locator("span", { hasText: /^green$/ }).count());
    const head = await output.innerText();
    assert.ok(head.startsWith("error and greencleared\nline 1"), head.slice(0, 60));
    assert.ok(!head.includes("line 299"));
    await call.getByRole("button", { name: /^Load/ }).click();
    await output.getByRole("button", { name: "Show all 301 lines" }).click();
    await output.getByText("line 300 of the log").waitFor();
  }
  assert.deepEqual(page.problems, []);
});

test("a page that was hidden for long gives its stream back and resumes", async () => {
  const id = await daemon.newSession("Hiding");
  page = await openPage(browser, daemon, "/");
  await page.clock.install();
  await page.goto(daemon.address(`/s/${id}`));
  await page.getByText("live", { exact: true }).waitFor();
  const show = (state) =>
    page.evaluate((value) => {
      Object.defineProperty(document, "visibilityState", { value, configurable: true });
      document.dispatchEvent(new Event("visibilitychange"));
    }, state);
  await show("hidden");
  await page.clock.fastForward(31_000);
  await page.getByText("paused while hidden").waitFor();
  await daemon.ask(id, "while it was hidden");
  await show("visible");
  await page.getByText("live", { exact: true }).waitFor();
  await page.clock.runFor(1000);
  await page.locator(".answer", { hasText: "First part. Second part." }).waitFor();
  assert.equal(await page.locator(".message").count(), 2);
});

test("a proposed command is a block with a copy button", async () => {
  await openSession("Commands");
  await page.context().grantPermissions(["clipboard-read", "clipboard-write"]);
  await prompt("a rich answer");
  const command = page.locator(".command");
  await command.getByText("du -xh --max-depth=2 /var | sort -rh | head -20").waitFor();
  await page.locator(".answer-facts").waitFor();
  await command.getByRole("button").click();
  await command.getByText("Copied").waitFor();
  assert.equal(await page.evaluate(() => navigator.clipboard.readText()), "du -xh --max-depth=2 /var | sort -rh | head -20");
});

test("settings, title and deletion", async () => {
  const id = await openSession("Before");
  await page.getByLabel("Model").selectOption("other");
  await until(async () => (await daemon.api("GET", `/v1/sessions/${id}`)).settings.model === "other");
  await page.locator(".menu summary").click();
  await page.getByRole("button", { name: "Rename…" }).click();
  await page.getByLabel("Title").fill("After");
  await page.keyboard.press("Enter");
  await page.getByRole("heading", { name: "After" }).waitFor();
  await page.locator(".sessions").getByText("After").waitFor();
  await page.locator(".menu summary").click();
  await page.getByRole("button", { name: "Delete…" }).click();
  await page.getByRole("button", { name: "Delete", exact: true }).click();
  await page.getByText("Choose a session").waitFor();
  assert.equal(new URL(page.url()).pathname, "/");
  await assert.rejects(daemon.api("GET", `/v1/sessions/${id}`));
});

test("the search finds sessions by their text, with an excerpt", async () => {
  const id = await daemon.newSession("Found by its text");
  await daemon.ask(id, "where does the quetzal live");
  page = await openPage(browser, daemon);
  // The next key is a letter of the search, even if it comes immediately.
  const focused = await page.evaluate(() => {
    document.body.dispatchEvent(new KeyboardEvent("keydown", { key: "/", bubbles: true }));
    return document.activeElement.id;
  });
  assert.equal(focused, "search");
  await page.keyboard.type("quetzal");
  await page.locator(".excerpt", { hasText: "quetzal" }).waitFor();
  // The first letters are searched too, and are in other sessions as well.
  await until(async () => (await page.locator(".sessions li").count()) === 1);
  await page.locator(".sessions a").click();
  await page.locator(".prompt-text", { hasText: "quetzal" }).waitFor();
});

test("a session that was found opens at the place that was found", async () => {
  const id = await daemon.newSession("With a place");
  await daemon.ask(id, "the axolotl lives in water");
  for (let n = 0; n < 3; n++) await daemon.ask(id, `${"a long prompt\n".repeat(30)} ${n}`);
  page = await openPage(browser, daemon);
  await page.locator("#search").fill("axolotl");
  await page.locator(".excerpt", { hasText: "axolotl" }).click();
  const found = page.locator(".message.user.target", { hasText: "axolotl" });
  await until(() => found.evaluate((message) => message.getBoundingClientRect().top < innerHeight && message === document.activeElement));
  // The title is not a message: it opens the session as usual.
  await page.locator("#search").fill("With a place");
  await page.locator(".excerpt", { hasText: "With a place" }).waitFor();
  assert.equal(await page.locator(".sessions a").getAttribute("href"), `/s/${id}`);
});

test("a place that was found in a result opens its call, and the phrase counts more than its words", async () => {
  const id = await daemon.newSession("With a result");
  await daemon.ask(id, "read the log");
  await daemon.ask(id, "of the log, line after line: 150");
  page = await openPage(browser, daemon);
  await page.locator("#search").fill("line 150 of the log");
  await page.locator(".sessions a", { hasText: "With a result" }).locator(".excerpt", { hasText: "line 150 of the log" }).click();
  const call = page.locator("details.call.target");
  await call.locator(".output", { hasText: "line 150 of the log" }).waitFor();
  assert.ok(await call.evaluate((element) => element.open));
});

test("a link to a record shows it with its chain", async () => {
  const id = await daemon.newSession("Records");
  await daemon.ask(id, "first");
  const { messages } = await daemon.api("GET", `/v1/sessions/${id}/messages`);
  const answer = messages.find((message) => message.role === "assistant");
  page = await openPage(browser, daemon, `/s/${id}/r/${answer.record_id}`);
  await page.locator(".message.assistant.target").waitFor();
  assert.equal(await page.locator(".chain li").count(), 2);
  await page.locator(".chain a").first().click();
  await page.locator(".message.user.target").waitFor();
  assert.deepEqual(page.problems, []);
});

test("everything can be reached with the keyboard", async () => {
  const id = await daemon.newSession("Keys");
  await daemon.ask(id, "alpha");
  await daemon.ask(id, "beta");
  page = await openPage(browser, daemon, `/s/${id}`);
  await page.locator(".answer-facts").nth(1).waitFor();
  const focused = () => page.evaluate(() => document.activeElement?.textContent ?? "");
  await page.keyboard.press("g");
  await page.keyboard.press("g");
  assert.ok((await focused()).includes("alpha"));
  await page.keyboard.press("j");
  await page.keyboard.press("j");
  assert.ok((await focused()).includes("beta"));
  await page.keyboard.press("k");
  assert.ok((await focused()).includes("First part."));
  await page.keyboard.press("?");
  await page.getByRole("dialog", { name: "Keys" }).waitFor();
  await page.keyboard.press("Escape");
  await page.getByRole("dialog").waitFor({ state: "detached" });
  await page.keyboard.press("g");
  await page.keyboard.press("o");
  const outline = page.getByRole("dialog", { name: "Prompts" });
  await outline.getByText("alpha").waitFor();
  await page.keyboard.type("alp");
  await page.keyboard.press("Enter");
  await outline.waitFor({ state: "detached" });
  await until(async () => (await focused()).includes("alpha"));
  await page.keyboard.press("c");
  await page.keyboard.type("n ? j");
  assert.equal(await page.locator("#prompt").inputValue(), "n ? j");
  await page.keyboard.press("Escape");
  await page.keyboard.press("n");
  await page.getByText("Write the first prompt below.").waitFor();
  assert.deepEqual(page.problems, []);
});

test("a page that slept gets what happened meanwhile, once", async () => {
  const session = await daemon.newSession("Sleeping");
  const page = await openPage(browser, daemon, `/s/${session}`);
  await page.getByText("live", { exact: true }).waitFor();
  const devtools = await page.context().newCDPSession(page);
  // The page runs nothing, and the connection ends, as on a machine that sleeps.
  await devtools.send("Page.setWebLifecycleState", { state: "frozen" });
  await daemon.kill();
  await daemon.launch();
  await daemon.ask(session, "while you slept");
  await devtools.send("Page.setWebLifecycleState", { state: "active" });
  await page.locator(".answer-facts").waitFor();
  await page.getByText("live", { exact: true }).waitFor();
  assert.equal(await page.locator(".prompt-text", { hasText: "while you slept" }).count(), 1);
  assert.equal(await page.locator(".answer-facts").count(), 1);
  await page.context().close();
});

test("more pages than a browser has connections are all live and can send", async () => {
  const session = await daemon.newSession("Many pages");
  const first = await openPage(browser, daemon, `/s/${session}`);
  const pages = [first];
  // A browser has six connections to one server.
  while (pages.length < 8) {
    const page = await first.context().newPage();
    const address = new URL(await daemon.ticketAddress());
    await page.goto(daemon.address(`/s/${session}`) + address.hash);
    pages.push(page);
  }
  for (const page of pages) await page.getByText("live", { exact: true }).waitFor();
  await pages[7].locator("#prompt").fill("from the eighth page");
  await pages[7].keyboard.press("Enter");
  for (const page of pages) {
    await page.locator(".prompt-text", { hasText: "from the eighth page" }).waitFor();
    await page.locator(".answer-facts").waitFor();
  }
  assert.deepEqual(first.problems, []);
  await first.context().close();
});

test("a new session works in the directory of the one that was shown", async () => {
  const { id } = await daemon.api("POST", "/v1/sessions", { title: "Somewhere", cwd: "/usr" });
  const page = await openPage(browser, daemon, `/s/${id}`);
  await page.locator(".cwd", { hasText: "/usr" }).waitFor();
  await page.getByRole("button", { name: "New session" }).first().click();
  await page.waitForURL((address) => address.pathname.startsWith("/s/") && !address.pathname.includes(id));
  const created = new URL(page.url()).pathname.split("/")[2];
  assert.equal((await daemon.api("GET", `/v1/sessions/${created}`)).cwd, "/usr");
  await page.context().close();
});

/** Holds a request back until it is released. */
async function hold(method, path, status) {
  let release;
  const released = new Promise((resolve) => { release = resolve; });
  await page.route(path, async (route) => {
    if (route.request().method() !== method) return route.continue();
    await released;
    await (status ? route.fulfill({ status, json: { message: "not now" } }) : route.continue());
  });
  return release;
}

test("what is typed while a prompt is being sent stays, and a prompt that was not sent comes back", async () => {
  await openSession("Typing");
  const field = page.locator("#prompt");
  for (const status of [undefined, 503]) {
    const release = await hold("POST", "**/messages", status);
    await prompt("first prompt");
    assert.equal(await field.inputValue(), "");
    await page.keyboard.type("second thought");
    release();
    if (status) {
      await page.getByRole("alert").getByText("not now").waitFor();
      assert.equal(await field.inputValue(), "first prompt\nsecond thought");
    } else {
      await page.locator(".prompt-text", { hasText: "first prompt" }).waitFor();
      await page.locator(".answer-facts").waitFor();
      assert.equal(await field.inputValue(), "second thought");
    }
    await page.unrouteAll();
  }
  await page.reload();
  assert.equal(await field.inputValue(), "first prompt\nsecond thought");
  await page.locator(".prompt-text").first().waitFor();
  assert.equal(await page.locator(".prompt-text").count(), 1);
});

test("a prompt is sent once, also if another session is shown meanwhile, and what is typed then stays", async () => {
  const other = await daemon.newSession("Another place");
  const id = await openSession("Sent once");
  const field = page.locator("#prompt");
  const release = await hold("POST", "**/messages");
  await prompt("only once please");
  await page.locator(`.sessions a[href="/s/${other}"]`).click();
  await page.locator("h1", { hasText: "Another place" }).waitFor();
  await page.locator(`.sessions a[href="/s/${id}"]`).click();
  await page.locator("h1", { hasText: "Sent once" }).waitFor();
  assert.equal(await field.inputValue(), "");
  await field.pressSequentially("more");
  release();
  await page.locator(".prompt-text", { hasText: "only once please" }).waitFor();
  await page.locator(".answer-facts").waitFor();
  assert.equal(await field.inputValue(), "more");
  await page.unrouteAll();
  await page.reload();
  await page.locator(".prompt-text", { hasText: "only once please" }).waitFor();
  assert.equal(await field.inputValue(), "more");
});

test("what is typed ahead of a session that cannot be made is the first prompt of the next one", async () => {
  await openSession("Typing ahead");
  await page.locator(".log").focus();
  const release = await hold("POST", "**/v1/sessions", 503);
  await page.keyboard.type("nprecious wordz");
  await page.keyboard.press("Backspace");
  await page.keyboard.type("s");
  release();
  await page.getByText("No new session", { exact: false }).waitFor();
  await page.unrouteAll();
  await page.locator(".log").focus();
  await page.keyboard.press("n");
  await page.locator("#prompt", { hasText: "" }).waitFor();
  await page.waitForFunction(() => document.querySelector("#prompt")?.value === "precious words");
});

test("a prompt that ends while another session is shown changes nothing there, and is told if it fails", async () => {
  const other = await daemon.newSession("Shown meanwhile");
  for (const words of ["alpha", "beta"]) await daemon.ask(other, words);
  const id = await openSession("Sent before");
  const show = async (session, title) => {
    await page.locator(`.sessions a[href="/s/${session}"]`).click();
    await page.locator("h1", { hasText: title }).waitFor();
  };
  for (const status of [undefined, 503]) {
    const release = await hold("POST", "**/messages", status);
    await prompt("sent from here");
    await page.getByRole("button", { name: "Sending…" }).waitFor();
    await show(other, "Shown meanwhile");
    await page.getByLabel("Show").selectOption("prompts");
    await page.getByText("2 prompts", { exact: true }).waitFor();
    const answered = page.waitForResponse((response) => response.request().method() === "POST" && response.url().endsWith("/messages"));
    release();
    await answered;
    if (status) await page.getByRole("alert").getByText("“sent from here” was not sent: not now.").waitFor();
    else await until(async () => (await daemon.api("GET", `/v1/sessions/${id}`)).prompts === 1);
    assert.equal(await page.getByLabel("Show").inputValue(), "prompts");
    assert.equal(await page.locator("#prompt").inputValue(), "");
    await show(id, "Sent before");
    if (status) {
      await page.locator(".composer").getByRole("alert").getByText("not now").waitFor();
      assert.equal(await page.locator("#prompt").inputValue(), "sent from here");
    }
    await page.unrouteAll();
  }
  assert.deepEqual(page.problems, []);
});

test("a prompt that was being sent when the page was left comes back with a warning", async () => {
  await openSession("Left while sending");
  await hold("POST", "**/messages");
  await prompt("sent or not");
  await page.getByRole("button", { name: "Sending…" }).waitFor();
  await page.reload();
  await page.getByRole("alert").getByText("the page was left while this prompt was being sent").waitFor();
  assert.equal(await page.locator("#prompt").inputValue(), "sent or not");
  await page.unrouteAll({ behavior: "ignoreErrors" });
  await page.locator("#prompt").fill("");
  await page.getByRole("alert").waitFor({ state: "detached" });
});

test("a daemon that hangs is said not to answer", async () => {
  const id = await daemon.newSession("Hanging");
  page = await openPage(browser, daemon, "/");
  await page.clock.install();
  await page.goto(daemon.address(`/s/${id}`));
  await page.getByText("live", { exact: true }).waitFor();
  daemon.process.kill("SIGSTOP");
  try {
    await prompt("into the silence");
    await page.getByRole("button", { name: "Sending…" }).waitFor();
    await page.clock.fastForward(20_500);
    await page.getByRole("alert").getByText("the daemon has not answered in time: the request may still be processed").waitFor();
    assert.equal(await page.locator("#prompt").inputValue(), "into the silence");
    await page.clock.fastForward(11_000);
    await page.locator(".connection.no_answer").waitFor();
  } finally {
    daemon.process.kill("SIGCONT");
  }
  await until(async () => {
    await page.clock.runFor(1000);
    return page.getByText("live", { exact: true }).isVisible();
  });
});

test("keys get their own meaning again with Escape, though the new session is not there yet", async () => {
  await openSession("Not there yet");
  await page.locator(".log").focus();
  const release = await hold("POST", "**/v1/sessions");
  await page.keyboard.type("nab");
  await page.getByRole("button", { name: "New session…" }).waitFor();
  await page.keyboard.press("Escape");
  await page.keyboard.press("?");
  await page.getByRole("dialog", { name: "Keys" }).waitFor();
  await page.keyboard.press("Escape");
  release();
  await page.waitForFunction(() => document.querySelector("#prompt")?.value === "ab");
  await page.unrouteAll();
});

test("a prompt that is too long is refused, and is not cut", async () => {
  await openSession("Too long");
  const field = page.locator("#prompt");
  await field.focus();
  await page.evaluate((text) => document.execCommand("insertText", false, text), "z".repeat(1_200_000));
  await page.keyboard.press("Enter");
  await page.getByRole("alert").waitFor();
  assert.equal((await field.inputValue()).length, 1_200_000);
});

test("the Enter that ends a composition does not send", async () => {
  await openSession("Composing");
  await page.locator("#prompt").fill("日本");
  // As in Safari, where the composition has ended already.
  const isTaken = await page.locator("#prompt").evaluate((field) =>
    !field.dispatchEvent(new KeyboardEvent("keydown", { key: "Enter", keyCode: 229, bubbles: true, cancelable: true })));
  assert.equal(isTaken, false);
  assert.equal(await page.locator("#prompt").inputValue(), "日本");
});

test("a new session is made once, and gets what is typed meanwhile", async () => {
  const count = async () => (await daemon.api("GET", "/v1/sessions?limit=200")).sessions.length;
  page = await openPage(browser, daemon);
  const before = await count();
  for (const way of ["key", "button"]) {
    const release = await hold("POST", "**/v1/sessions");
    if (way === "key") await page.locator("h1").press("n");
    else await page.getByRole("button", { name: "New session" }).first().dblclick();
    await page.keyboard.type("note to self");
    release();
    await page.waitForFunction(() => document.activeElement.id === "prompt");
    await page.keyboard.type("!");
    assert.equal(await page.locator("#prompt").inputValue(), "note to self!");
    await page.unrouteAll();
    await page.goto(daemon.address("/"));
    await page.locator(".home").waitFor();
  }
  assert.equal(await count(), before + 2);
});

test("a new session in which nothing was done is shown again instead of another one", async () => {
  const count = async () => (await daemon.api("GET", "/v1/sessions?limit=200")).sessions.length;
  page = await openPage(browser, daemon);
  const before = await count();
  const paths = [];
  for (let n = 0; n < 4; n++) {
    await page.locator("h1").press("n");
    await page.waitForFunction(() => document.activeElement.id === "prompt");
    paths.push(new URL(page.url()).pathname);
    // The third is asked for after a prompt, the fourth after a choice of the model.
    if (n === 1) await prompt("alpha");
    if (n === 2) await daemon.api("PATCH", `/v1/sessions/${paths[2].split("/")[2]}`, { model: "other" });
    await page.keyboard.press("Escape");
    await page.locator(".log").focus();
    await page.keyboard.press("g");
    await page.keyboard.press("h");
    await page.locator(".home").waitFor();
  }
  assert.equal(paths[0], paths[1]);
  assert.notEqual(paths[1], paths[2]);
  assert.notEqual(paths[2], paths[3]);
  assert.equal(await count(), before + 3);
});

test("a copy of the session has long results whole", async () => {
  await openSession("Copying");
  await page.context().grantPermissions(["clipboard-read", "clipboard-write"]);
  await prompt("read the log");
  await page.locator(".answer", { hasText: "The tool has answered." }).waitFor();
  await page.locator(".menu summary").click();
  await page.getByRole("button", { name: "Copy as Markdown" }).click();
  await page.getByText("Copied.").waitFor();
  const copied = await page.evaluate(() => navigator.clipboard.readText());
  assert.ok(copied.includes("line 1 of the log") && copied.includes("line 300 of the log"));
  assert.ok(copied.includes("### Call: notes.read_log\n\n```\n{}\n```"));
  assert.ok(!copied.includes("\u001b"));
});

test("the draft for a session that was deleted elsewhere can be copied", async () => {
  const id = await openSession("Deleted elsewhere");
  await page.locator("#prompt").fill("many words");
  await daemon.api("DELETE", `/v1/sessions/${id}`);
  await page.getByRole("heading", { name: "This session was deleted." }).waitFor();
  await page.locator("main pre", { hasText: "many words" }).waitFor();
  await page.getByRole("button", { name: "Copy the prompt" }).waitFor();
});
