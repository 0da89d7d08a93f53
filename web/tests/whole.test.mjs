import assert from "node:assert/strict";
import { after, before, test } from "node:test";
import { Daemon, openPage, startBrowser, stopAll, until } from "./harness.mjs";
import { Terminal } from "./terminal.mjs";

const SECRET = "ghp_0aB1cD2eF3gH4iJ5kL6mN7oP8qR9sT0uV1wX";

let daemon, browser, terminal;
before(async () => {
  daemon = await Daemon.start();
  browser = await startBrowser();
  terminal = await Terminal.start(daemon);
});
after(() => stopAll(daemon, browser, terminal));

test("a terminal and the page show the same session, through a crash of the daemon", async () => {
  // Another session, which the search must not find.
  await daemon.ask(await daemon.newSession("Something else"), "read the log");
  const page = await openPage(browser, daemon);
  const list = page.locator(".sessions");
  await list.getByText("Something else").waitFor();

  // An answer in the terminal streams into the list and into the view of the session.
  await terminal.line(`llm steady answer with ${SECRET}`);
  await terminal.shows("First part.");
  const entry = list.locator("a", { hasText: "steady answer" });
  await entry.getByText("answering").waitFor();
  await entry.click();
  await page.locator(".prompt-text", { hasText: "steady answer with" }).waitFor();
  const answers = page.locator(".message.assistant .answer");
  await answers.getByText("First part.").waitFor();
  await page.getByRole("button", { name: "Cancel" }).waitFor();
  assert.ok(!(await page.content()).includes("Second part."));
  assert.ok(!(await terminal.text()).includes("Second part."));
  daemon.provider.release();
  await answers.getByText("More words. Second part.").waitFor();
  await terminal.shows("Second part.");
  await entry.getByText("answering").waitFor({ state: "detached" });

  // A prompt of the page makes a tool call, which is approved in the terminal.
  await page.locator("#prompt").fill("please use the tool");
  await page.keyboard.press("Enter");
  const question = page.getByRole("region", { name: "Open questions" });
  await question.getByText("notes.write_note").waitFor();
  await terminal.pressUntil("Enter", "“please use the tool” waits for your answer");
  const id = new URL(page.url()).pathname.split("/").at(-1);
  const attach = `llm --attach ${id.slice(-8)}`;
  await question.getByText(attach).waitFor();
  await terminal.line(attach);
  await terminal.shows("[?]");
  await terminal.pressUntil("y", "[?] help yes");
  await question.waitFor({ state: "detached" });
  const call = page.locator("details.call");
  await call.getByText("done").waitFor();
  await call.locator("summary").click();
  await call.locator(".output").getByText("written").waitFor();
  await answers.getByText("The tool has answered.").waitFor();
  await terminal.shows("The tool has answered.");

  // The search finds a word of the answer.
  await page.locator("#search").fill("Second");
  await list.getByText("Something else").waitFor({ state: "detached" });
  await list.locator(".excerpt", { hasText: "Second part." }).waitFor();
  await until(async () => (await list.locator("li").count()) === 1);
  await page.locator("#search").fill("");
  await list.getByText("Something else").waitFor();

  // The session is shared without the secret, and unshared.
  await page.getByRole("button", { name: "Share", exact: true }).click();
  const dialog = page.getByRole("dialog");
  await dialog.getByText(/Left out or replaced: \d+ secrets?/).waitFor();
  await dialog.getByRole("button", { name: "Share", exact: true }).click();
  const address = await dialog.getByRole("link").getAttribute("href");
  const opens = page.context().waitForEvent("page");
  await dialog.getByRole("link").click();
  const shared = await opens;
  await shared.getByText("The tool has answered.").waitFor();
  const html = await shared.content();
  for (const absent of [SECRET, daemon.home, id, "<script"]) assert.ok(!html.includes(absent), absent);
  await dialog.getByRole("button", { name: "Remove the page" }).click();
  await dialog.waitFor({ state: "detached" });
  assert.equal((await shared.reload()).status(), 404);
  assert.equal((await fetch(new URL(address, daemon.address("/")))).status, 404);
  await shared.close();

  // The daemon crashes; the next prompt in the terminal starts another one, and the page continues by itself.
  await daemon.kill();
  await page.locator(".connection.reconnecting, .connection.no_answer").waitFor();
  const count = await answers.count();
  await terminal.line("llm after the crash");
  await page.locator(".connection.live").waitFor();
  await page.locator(".prompt-text", { hasText: "after the crash" }).waitFor();
  await answers.nth(count).getByText("First part. Second part.").waitFor();
  await until(async () => (await terminal.text()).split("llm after the crash")[1]?.includes("Second part."));
  assert.equal(await answers.count(), count + 1);
  assert.equal(await page.locator(".message.user").count(), 3);
  assert.deepEqual(page.problems, []);
});
