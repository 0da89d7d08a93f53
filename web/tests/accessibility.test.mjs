import assert from "node:assert/strict";
import { after, before, test } from "node:test";
import { Daemon, axeViolations, openPage, startBrowser, stopAll } from "./harness.mjs";

let daemon, browser, session;
before(async () => {
  daemon = await Daemon.start();
  browser = await startBrowser();
  session = await daemon.newSession("Accessible");
  await daemon.ask(session, "a rich answer and two tables");
  await daemon.api("POST", `/v1/sessions/${session}/messages`, { content: "please use the tool" });
});
after(() => stopAll(daemon, browser));

const LOOKS = {
  light: { colorScheme: "light" },
  dark: { colorScheme: "dark" },
  "320 pixels": { viewport: { width: 320, height: 640 } },
  "more contrast": { contrast: "more" },
  "200 % zoom": { viewport: { width: 640, height: 400 }, deviceScaleFactor: 2 },
};

for (const [name, options] of Object.entries(LOOKS)) {
  test(`axe finds nothing: ${name}`, async () => {
    const page = await openPage(browser, daemon, `/s/${session}`, options);
    await page.locator(".questions").waitFor();
    await page.locator("details.call summary").click();
    assert.deepEqual(await axeViolations(page), []);
    const overflow = await page.evaluate(() => document.documentElement.scrollWidth - innerWidth);
    assert.ok(overflow <= 0, `the page is ${overflow} px too wide`);
    await page.keyboard.press("Escape");
    await page.keyboard.press("?");
    await page.getByRole("dialog").waitFor();
    assert.ok((await page.getByRole("button", { name: "Close" }).boundingBox()).height < 40);
    assert.deepEqual(await axeViolations(page), []);
    await page.keyboard.press("Escape");
    await page.getByRole("button", { name: "Share", exact: true }).click();
    await page.getByText(/Left out or replaced|Nothing is left out/).waitFor();
    assert.deepEqual(await axeViolations(page), []);
    await page.keyboard.press("Escape");
    await page.getByLabel("Show").selectOption("prompts");
    await page.locator(".log [role=status]", { hasText: "2 prompts" }).waitFor();
    assert.deepEqual(await axeViolations(page), []);
    for (const path of ["/", "/activity", "/shares", "/s/unknown"]) {
      await page.goto(daemon.address(path));
      await page.locator(path === "/" ? ".sessions" : "main h1").first().waitFor();
      if (path === "/activity") await page.locator(".entries li").first().waitFor();
      assert.deepEqual(await axeViolations(page), [], path);
      assert.ok((await page.evaluate(() => document.documentElement.scrollWidth - innerWidth)) <= 0, path);
    }
    assert.deepEqual(page.problems, []);
    await page.context().close();
  });
}
