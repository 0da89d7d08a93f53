import assert from "node:assert/strict";
import { after, before, test } from "node:test";
import { Daemon, axeSource, openPage, startBrowser } from "./harness.mjs";

let daemon, browser, session;
before(async () => {
  daemon = await Daemon.start();
  browser = await startBrowser();
  session = await daemon.newSession("Accessible");
  await daemon.ask(session, "a rich answer");
  await daemon.api("POST", `/v1/sessions/${session}/messages`, { content: "please use the tool" });
});
after(async () => {
  await browser?.close();
  await daemon?.stop();
});

const LOOKS = {
  light: { colorScheme: "light" },
  dark: { colorScheme: "dark" },
  "320 pixels": { viewport: { width: 320, height: 640 } },
  "more contrast": { contrast: "more" },
  "200 % zoom": { viewport: { width: 640, height: 400 }, deviceScaleFactor: 2 },
};

async function violations(page) {
  // Scripts injected by the test are not subject to the page's policy.
  await page.evaluate(axeSource());
  const result = await page.evaluate(() => window.axe.run(document));
  return result.violations.map(({ id, nodes }) => `${id}: ${nodes.map((node) => node.html.slice(0, 120)).join(" | ")}`);
}

for (const [name, options] of Object.entries(LOOKS)) {
  test(`axe finds nothing: ${name}`, async () => {
    const page = await openPage(browser, daemon, `/s/${session}`, options);
    await page.locator(".questions").waitFor();
    await page.locator("details.call summary").click();
    assert.deepEqual(await violations(page), []);
    const overflow = await page.evaluate(() => document.documentElement.scrollWidth - innerWidth);
    assert.ok(overflow <= 0, `the page is ${overflow} px too wide`);
    await page.keyboard.press("Escape");
    await page.keyboard.press("?");
    await page.getByRole("dialog").waitFor();
    assert.deepEqual(await violations(page), []);
    await page.keyboard.press("Escape");
    for (const path of ["/", "/activity", "/shares", "/s/unknown"]) {
      await page.goto(daemon.address(path));
      await page.locator(path === "/" ? ".sessions" : "main h1").first().waitFor();
      assert.deepEqual(await violations(page), [], path);
    }
    assert.deepEqual(page.problems, []);
    await page.context().close();
  });
}
