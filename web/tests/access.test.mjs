import assert from "node:assert/strict";
import { after, before, test } from "node:test";
import { createServer } from "node:http";
import { Daemon, freePort, openPage, startBrowser, stopAll } from "./harness.mjs";

let daemon, browser;
before(async () => {
  daemon = await Daemon.start();
  browser = await startBrowser();
});
after(() => stopAll(daemon, browser));

test("the ticket is traded for a bearer and leaves no trace in the address", async () => {
  const page = await openPage(browser, daemon);
  assert.equal(new URL(page.url()).hash, "");
  assert.equal(await page.evaluate(() => document.cookie), "");
  assert.equal(await page.evaluate(() => Object.keys(localStorage).length), 0);
  assert.ok(await page.evaluate(() => sessionStorage.getItem("aish.bearer")));
  // Going back must not bring the ticket into the address again.
  await page.goBack().catch(() => {});
  assert.ok(!page.url().includes("#t="));
  await page.context().close();
});

test("the bearer survives a reload", async () => {
  const page = await openPage(browser, daemon);
  await page.reload();
  await page.locator(".layout").waitFor();
  assert.deepEqual(page.problems, []);
  await page.context().close();
});

test("script and style sheet are kept by the browser, under an address that changes with them", async () => {
  const page = await openPage(browser, daemon);
  await page.goto(daemon.address("/activity"));
  const loads = await page.evaluate(() => performance.getEntriesByType("resource")
    .filter(({ name }) => /\/app\./.test(name)).map(({ name, transferSize }) => [name, transferSize]));
  assert.equal(loads.length, 2);
  for (const [address, size] of loads) {
    assert.match(address, /\?v=[0-9a-f]{16}$/);
    assert.equal(size, 0);
    const kept = await fetch(address);
    assert.match(kept.headers.get("cache-control"), /immutable/);
    for (const other of [address.replace(/\?.*/, ""), `${address}0`]) {
      assert.equal((await fetch(other)).headers.get("cache-control"), "no-cache");
    }
  }
  assert.equal((await fetch(daemon.address("/?" + loads[0][0].split("?")[1]))).headers.get("cache-control"), "no-cache");
  await page.context().close();
});

test("a ticket works once, and the page says how to get another", async () => {
  const address = await daemon.ticketAddress();
  const first = await browser.newPage();
  await first.goto(address);
  await first.locator(".layout").waitFor();
  const second = await (await browser.newContext()).newPage();
  await second.goto(address);
  await second.getByText("aish-helper web").waitFor();
  assert.equal(new URL(second.url()).hash, "");
  await second.context().close();
  await first.close();
});

test("a new tab gets the bearer from an open one", async () => {
  const page = await openPage(browser, daemon);
  const other = await page.context().newPage();
  await other.goto(daemon.address("/"));
  await other.locator(".layout").waitFor();
  await page.context().close();
});

test("tabs do not hand a refused bearer to each other", async () => {
  const page = await openPage(browser, daemon);
  const other = await page.context().newPage();
  await other.goto(await daemon.ticketAddress());
  await other.locator(".layout").waitFor();
  // Any request of the other tab is refused too, and it forgets its bearer then.
  const kept = await other.evaluate(() => sessionStorage.getItem("aish.bearer"));
  let refusals = 0;
  page.on("response", (response) => {
    if (response.status() === 401) refusals += 1;
  });
  // As if the daemon had forgotten both.
  for (const tab of [page, other]) await tab.route("**/v1/**", (route) => route.fulfill({ status: 401, body: "{}" }));
  await page.reload();
  await page.getByRole("heading", { name: "Open this page from a terminal" }).waitFor();
  const before = refusals;
  // Ready once the listener is there; the promise within is done once the page has handled the note too.
  const handled = await page.evaluateHandle(() => ({
    done: new Promise((resolve) => {
      new BroadcastChannel("aish.bearer").onmessage = () => setTimeout(resolve);
    }),
  }));
  await other.evaluate((bearer) => new BroadcastChannel("aish.bearer").postMessage({ bearer }), kept);
  await handled.evaluate(({ done }) => done);
  const seen = await page.evaluate(() => document.querySelector("h1")?.textContent);
  assert.equal(seen, "Open this page from a terminal");
  assert.equal(refusals, before);
  await page.context().close();
});

test("a refused bearer shows what to do, and a new ticket in another tab lets the page go on", async () => {
  const page = await openPage(browser, daemon);
  const session = await daemon.newSession("Signed in anew");
  await page.evaluate(() => sessionStorage.setItem("aish.bearer", "0".repeat(64)));
  await page.goto(daemon.address(`/s/${session}`));
  await page.getByRole("heading", { name: "Open this page from a terminal" }).waitFor();
  let release;
  const released = new Promise((resolve) => { release = resolve; });
  await page.route(/\/messages\?/, async (route) => {
    await released;
    await route.continue();
  });
  const other = await page.context().newPage();
  await other.goto(await daemon.ticketAddress());
  await other.locator(".layout").waitFor();
  await page.locator("#prompt").waitFor();
  assert.equal(await page.getByRole("button", { name: "Try again" }).count(), 0);
  release();
  await page.getByText("Write the first prompt below.").waitFor();
  await daemon.api("DELETE", `/v1/sessions/${session}`);
  await page.context().close();
});

test("a name that leads to this machine gets nothing", async (context) => {
  const rebound = await startBrowser(["--host-resolver-rules=MAP evil.example 127.0.0.1"]);
  context.after(() => rebound.close());
  const page = await rebound.newPage();
  const address = `http://evil.example:${daemon.port}`;
  const response = await page.goto(`${address}/`);
  assert.equal(response.status(), 421);
  assert.match(await response.text(), /"kind":"origin"/);
  // What it got has a policy under which it can ask for nothing more.
  const outcome = await page.evaluate(() => fetch("/v1/sessions").then(() => "answered", () => "failed"));
  assert.equal(outcome, "failed");
});

test("a page of another port can neither show nor ask anything", async (context) => {
  const port = await freePort();
  const foreign = createServer((_, response) => {
    response.setHeader("content-type", "text/html");
    response.end(`<!doctype html><title>foreign</title><iframe src="http://127.0.0.1:${daemon.port}/"></iframe>
      <iframe src="http://127.0.0.1:${daemon.port}/replay"></iframe>`);
  });
  context.after(() => foreign.close());
  await new Promise((resolve) => foreign.listen(port, "127.0.0.1", resolve));
  const page = await browser.newPage();
  await page.goto(`http://127.0.0.1:${port}/`);
  const frames = page.frames().slice(1).map((frame) => frame.url());
  // What Chromium shows in place of a page that refuses to be framed.
  assert.deepEqual(frames, Array(2).fill("chrome-error://chromewebdata/"));
  const token = (await daemon.command("serve", "token", "show")).trim();
  const outcomes = await page.evaluate(async ([base, authorization]) => {
    const tried = [];
    for (const [path, init] of [
      ["/health", {}],
      ["/v1/sessions", { headers: { authorization } }],
      ["/v1/sessions", { method: "POST", body: "{}", headers: { authorization, "content-type": "application/json" } }],
      ["/v1/tickets", { method: "POST", body: "{\"ticket\":\"x\"}", headers: { "content-type": "text/plain" } }],
      ["/app.js", { mode: "no-cors" }],
    ]) {
      tried.push(await fetch(base + path, init).then((answer) => `${path}: ${answer.type}`, () => "failed"));
    }
    return tried;
  }, [`http://127.0.0.1:${daemon.port}`, `Bearer ${token}`]);
  assert.deepEqual(outcomes, Array(5).fill("failed"));
  assert.deepEqual((await daemon.api("GET", "/v1/sessions")).sessions, []);
  await page.close();
});
