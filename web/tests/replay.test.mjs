import assert from "node:assert/strict";
import { after, afterEach, before, test } from "node:test";
import { dirname, join } from "node:path";
import { fileURLToPath } from "node:url";
import { build } from "esbuild";
import { Daemon, axeViolations, openPage, startBrowser, stopAll, until } from "./harness.mjs";
import { Terminal } from "./terminal.mjs";

/** A pause of the recording, which the player shortens, in seconds. */
const PAUSE_S = 5;

let daemon, browser, terminal, session, page;
before(async () => {
  daemon = await Daemon.start();
  browser = await startBrowser();
  terminal = await Terminal.start(daemon);
  await record();
  await terminal.line("print $'\\e]0;title\\a\\e[31mred-words\\e[0m'");
  await terminal.shows("m' red-words");
  await terminal.line("llm about the recording");
  await terminal.shows("Second part.");
  await terminal.line("(exit 3)");
  await terminal.line(`sleep ${PAUSE_S}; print after-the-pause`);
  await terminal.shows("print after-the-pause after-the-pause");
  await endRecording();
  session = (await daemon.api("GET", "/v1/sessions")).sessions[0].id;
});
afterEach(async () => {
  await page?.context().close();
  page = null;
});
after(() => stopAll(daemon, browser, terminal));

/** Starts a recorded shell in the terminal. */
async function record() {
  await terminal.line("aish-helper record");
  await until(async () => /aish-helper record .*ready> $/.test(await terminal.text()));
}

const recorded = async () => JSON.parse(await daemon.command("recording", "list", "--json"));

async function endRecording() {
  await terminal.line("exit");
  await until(async () => (await recorded()).every(({ ended }) => ended));
}

async function openSession(options) {
  page = await openPage(browser, daemon, `/s/${session}`, options);
  page.paths = [];
  page.on("request", (request) => page.paths.push(new URL(request.url()).pathname));
  await replayButton().waitFor();
}

/** Opens the replay of the session, and waits until the player shows it. */
async function openReplay(options) {
  await openSession(options);
  await replayButton().click();
  return shown();
}

async function shown() {
  await page.locator(".player-state").waitFor({ state: "detached" });
  return frame();
}

const replayButton = () => page.getByRole("button", { name: "Replay", exact: true });
const panel = () => page.getByRole("region", { name: "Replay", exact: true });
const commands = () => panel().locator(".replay-commands button");
const command = (words) => commands().filter({ hasText: words });
const frame = () => page.frames().find((one) => one.url().endsWith("/replay"));
const screen = async () => (await frame().locator("#terminal").innerText()).replaceAll("\u00a0", " ");
/** Position and length, in seconds. */
const times = async () => {
  const [at, length] = (await frame().locator("#time").innerText()).split(" / ").map((time) => time.split(":"));
  return [at, length].map(([minutes, seconds]) => Number(minutes) * 60 + Number(seconds));
};
/** The element with the focus; for the frame, the one inside it. */
const focused = async () => {
  const name = () => document.activeElement.id || document.activeElement.localName;
  const outer = await page.evaluate(name);
  return outer === "iframe" ? frame().evaluate(name) : outer;
};

test("the player is loaded when a replay is opened, and shows the recording", async () => {
  await openSession();
  assert.deepEqual(page.paths.filter((path) => path === "/replay" || path.endsWith("/logs/raw")), []);
  assert.equal(await page.locator("iframe").count(), 0);
  await replayButton().click();
  await shown();
  assert.equal(page.paths.filter((path) => path === "/replay").length, 1);
  const texts = await commands().locator("code").allInnerTexts();
  assert.deepEqual(texts.slice(1), ["llm about the recording", "(exit 3)", `sleep ${PAUSE_S}; print after-the-pause`, "exit"]);
  await command("(exit 3)").getByText("exit code 3").waitFor();
  await until(async () => (await screen()).includes("ready> print"));
  assert.ok(!(await screen()).includes("after-the-pause"));
  await command("exit").last().click();
  await until(async () => /red-words[^]*Second part\.[^]*after-the-pause/.test(await screen()));
  const [, length] = await times();
  assert.ok(length >= PAUSE_S, `${length}`);
  assert.deepEqual(page.problems, []);
});

test("a command of the list moves the player to its start", async () => {
  await openReplay();
  const start = (await times())[0];
  await command("sleep").click();
  await command("sleep").and(page.locator("[aria-current]")).waitFor();
  await until(async () => (await screen()).trimEnd().endsWith("print after-the-pause"));
  const [before, length] = await times();
  assert.ok(before >= start);
  await commands().last().click();
  await commands().last().and(page.locator("[aria-current]")).waitFor();
  await until(async () => (await times())[0] >= before + PAUSE_S - 1);
  // The pause is shorter in the player, which ends within it.
  await command("sleep").click();
  const begin = Date.now();
  await frame().getByRole("button", { name: "Play" }).click();
  await frame().getByRole("button", { name: "Pause" }).waitFor();
  await frame().getByRole("button", { name: "Play" }).waitFor();
  assert.ok(Date.now() - begin < (PAUSE_S - 1) * 1000);
  assert.deepEqual(await times(), [length, length]);
  // From the end it starts again.
  await frame().getByRole("button", { name: "Play" }).click();
  await until(async () => (await times())[0] < length);
  assert.deepEqual(page.problems, []);
});

test("a prompt goes to its place in the recording", async () => {
  await openSession();
  const here = page.getByRole("button", { name: "Replay here" });
  assert.equal(await here.count(), 0);
  await replayButton().click();
  await shown();
  await commands().last().click();
  await page.locator(".message.user").filter({ hasText: "about the recording" }).getByRole("button", { name: "Replay here" }).click();
  await command("llm about").and(page.locator("[aria-current]")).waitFor();
  await until(async () => !(await screen()).includes("(exit 3)"));
  // Escape closes a dialog, and then the replay.
  await page.keyboard.press("?");
  await page.getByRole("dialog").waitFor();
  await page.keyboard.press("Escape");
  await page.getByRole("dialog").waitFor({ state: "detached" });
  assert.equal(await panel().count(), 1);
  await page.getByRole("button", { name: "Share", exact: true }).click();
  await page.getByRole("dialog").waitFor();
  await page.keyboard.press("Escape");
  await page.getByRole("dialog").waitFor({ state: "detached" });
  assert.equal(await panel().count(), 1);
  await page.keyboard.press("Escape");
  await here.first().waitFor({ state: "detached" });
});

test("everything works by keyboard, and Escape in the frame closes the replay", async () => {
  await openSession();
  await page.keyboard.press("?");
  await page.getByRole("dialog").getByText("Replay of the terminal").waitFor();
  await page.keyboard.press("Escape");
  await page.keyboard.press("g");
  await page.keyboard.press("r");
  await shown();
  assert.equal(await focused(), "replay-title");
  // The focus enters and leaves the frame a little later than the key is pressed.
  const isFocused = (name) => until(async () => (await focused()) === name);
  for (const name of ["button", "terminal", "toggle", "position"]) {
    await page.keyboard.press("Tab");
    await isFocused(name);
  }
  // The slider.
  await page.keyboard.press("End");
  await until(async () => (await screen()).includes("after-the-pause"));
  assert.equal(await frame().locator("#position").getAttribute("aria-valuetext"), await valueText());
  await page.keyboard.press("ArrowLeft");
  await until(async () => (await times())[0] < (await times())[1]);
  // The terminal.
  await page.keyboard.press("Shift+Tab");
  await page.keyboard.press("Shift+Tab");
  await isFocused("terminal");
  await page.keyboard.press("0");
  await until(async () => (await times())[0] === 0);
  for (const words of ["print", "llm about", "(exit 3)", "sleep"]) {
    await page.keyboard.press("]");
    await command(words).and(page.locator("[aria-current]")).first().waitFor();
  }
  await page.keyboard.press("[");
  await command("(exit 3)").and(page.locator("[aria-current]")).waitFor();
  await page.keyboard.press("Space");
  await frame().getByRole("button", { name: "Pause" }).waitFor();
  await page.keyboard.press("Space");
  await frame().getByRole("button", { name: "Play" }).waitFor();
  for (const key of ["?", "f", "k", "m"]) await page.keyboard.press(key);
  assert.ok(!(await frame().locator("body").innerText()).includes("Keyboard shortcuts"));
  // The commands.
  for (let n = 0; n < 3; n++) await page.keyboard.press("Tab");
  await isFocused("button");
  await page.keyboard.press("Enter");
  await command("print").first().and(page.locator("[aria-current]")).waitFor();
  await page.keyboard.press("Shift+Tab");
  await isFocused("position");
  await page.keyboard.press("Escape");
  await panel().waitFor({ state: "detached" });
  assert.equal(await focused(), "replay-button");
  assert.deepEqual(page.problems, []);
});

async function valueText() {
  const [at, length] = (await frame().locator("#time").innerText()).split(" / ");
  return `${at} of ${length}`;
}

test("closing removes the frame, and another session has no replay of this one", async () => {
  const other = await daemon.newSession("Without a terminal");
  await openReplay();
  for (const close of [() => replayButton().click(), () => page.keyboard.press("Escape"), () => panel().getByRole("button", { name: "Close" }).click()]) {
    if ((await panel().count()) === 0) await replayButton().click();
    await shown();
    await close();
    await panel().waitFor({ state: "detached" });
    await until(() => page.frames().length === 1);
    assert.equal(await focused(), "replay-button");
  }
  await replayButton().click();
  await shown();
  await page.locator(".sessions a", { hasText: "Without a terminal" }).click();
  await panel().waitFor({ state: "detached" });
  await page.getByText("live", { exact: true }).waitFor();
  assert.equal(await replayButton().count(), 0);
  await page.evaluate(() => document.activeElement.blur());
  await page.keyboard.press("g");
  await page.keyboard.press("r");
  await panel().getByText("No terminal that uses this session was recorded.").waitFor();
  assert.equal(page.frames().length, 1);
  assert.deepEqual(page.problems, []);
  await daemon.api("DELETE", `/v1/sessions/${other}`);
});

test("the frame has no origin, and reaches neither the page nor the daemon", async () => {
  await openReplay();
  assert.deepEqual(page.problems, []);
  const reached = await frame().evaluate(async (address) => {
    const tries = {
      fetch: () => fetch(address),
      image: () =>
        new Promise((resolve, reject) => {
          const image = new Image();
          image.onload = resolve;
          image.onerror = reject;
          image.src = `${address}/icon.svg`;
        }),
      parent: () => parent.document.title,
      storage: () => sessionStorage.length,
      cookies: () => document.cookie,
      top: () => {
        top.location.href = "about:blank";
      },
      eval: () => (0, eval)("1"),
      inline: () =>
        new Promise((resolve, reject) => {
          const script = document.createElement("script");
          script.textContent = "window.inlined = 1";
          document.body.append(script);
          if (window.inlined) resolve();
          else reject();
        }),
    };
    const done = [];
    for (const [name, attempt] of Object.entries(tries)) {
      await Promise.resolve().then(attempt).then(() => done.push(name), () => {});
    }
    return { done, origin: self.origin };
  }, daemon.address(""));
  assert.deepEqual(reached, { done: [], origin: "null" });
  assert.ok(page.url().endsWith(session));
});

const LOOKS = {
  light: { colorScheme: "light" },
  dark: { colorScheme: "dark", viewport: { width: 1300, height: 800 } },
  "320 pixels": { viewport: { width: 320, height: 640 } },
  "more contrast": { contrast: "more" },
  "200 % zoom": { viewport: { width: 640, height: 400 }, deviceScaleFactor: 2 },
};

for (const [name, options] of Object.entries(LOOKS)) {
  test(`axe finds nothing in the replay: ${name}`, async () => {
    await openReplay(options);
    await command("exit").last().click();
    await until(async () => (await screen()).includes("after-the-pause"));
    assert.deepEqual(await axeViolations(page), []);
    assert.deepEqual(await axeViolations(frame()), []);
    const overflow = await page.evaluate(() => document.documentElement.scrollWidth - innerWidth);
    assert.ok(overflow <= 0, `the page is ${overflow} px too wide`);
    const { width, height } = await page.locator("iframe").boundingBox();
    assert.ok(width > 250 && height > 200, `${width} × ${height}`);
  });
}

test("the player follows a change of the colours", async () => {
  await openReplay({ colorScheme: "light" });
  await command("exit").last().click();
  const red = () => frame().locator(".ap-line span", { hasText: /^red-words *$/ }).evaluate((span) => getComputedStyle(span).color);
  await until(async () => (await red()) === "rgb(164, 38, 44)");
  await page.emulateMedia({ colorScheme: "dark" });
  await until(async () => (await red()) === "rgb(245, 154, 154)");
  assert.ok((await screen()).includes("after-the-pause"));
});

/** Opens the replay with another file instead of the recording. */
async function openFile(body) {
  await openSession();
  await page.route("**/logs/raw?*", (route) => route.fulfill({ body, contentType: "application/x-asciicast" }));
  await replayButton().click();
}

const castOf = (events, term = { cols: 80, rows: 24 }) =>
  [{ version: 3, term }, ...events].map((line) => (typeof line === "string" ? line : JSON.stringify(line))).join("\n");

test("a recording that is too large is not loaded", async () => {
  await openFile(Buffer.alloc(33 * 1024 * 1024, "x"));
  await panel().getByRole("alert").getByText("more than 32.0 MB").waitFor();
  await panel().getByText("aish-helper replay").waitFor();
  assert.equal(page.frames().length, 1);
});

test("a hostile recording shows text, or says that it cannot be shown", async () => {
  const hostile = [
    [0, "o", "!\u001b[999999999C\u001b[999999999b\u001b[999999999L\u001b[?1049h\u001b[?1049l\u001b[H\u001b[2J"],
    [0.1, "o", "\u001b]0;title\u0007\u001b]52;c;aGFja2Vk\u0007\u001b]8;;javascript:alert(1)\u0007link\u001b]8;;\u0007 "],
    "not json", "[", [1e400, "o", "never"], ["1", "o", "never"], [0, "r", "99999x99999"], [0, "r", "0x0"], [0, "z", "never"],
    [0, "o", "<img src=x onerror=alert(1)><script>alert(1)</script>\r\n\u202eabc\u202c \u2066def\u2069"],
    [0, "m", "</script>"], [0, "r", "100x30"], [0, "o", "\r\nend"],
  ];
  await openFile(castOf(hostile));
  await shown();
  await frame().locator("#position").press("End");
  await until(async () => (await screen()).includes("end"));
  const text = await screen();
  assert.ok(text.includes("link <img src=x onerror=alert(1)><script>"), text);
  assert.ok(text.includes("abc def") && !text.includes("never"), text);
  assert.equal(await frame().locator("#terminal img, #terminal script, #terminal a").count(), 0);
  assert.deepEqual(page.problems, []);
  await page.context().close();
  for (const [body, words] of [
    ["", "not an asciicast of version 3"],
    [castOf([[0, "o", "x"]]).replace('"version":3', '"version":1'), "not an asciicast of version 3"],
    [castOf([[0, "o", "x"]], { cols: 65535, rows: 65535 }), "its size is missing or too large"],
    [castOf([]), "it is empty"],
  ]) {
    await openFile(body);
    await panel().getByRole("alert").getByText(words).waitFor();
    assert.deepEqual(page.problems, []);
    await page.context().close();
  }
});

test("the terminal is scrolled to what happens in it", async () => {
  await openSession({ viewport: { width: 1000, height: 700 } });
  const lines = Array.from({ length: 49 }, (_, n) => [0.1, "o", `line ${n}\r\n`]);
  await page.route("**/logs/raw?*", (route) => route.fulfill({ body: castOf(lines, { cols: 80, rows: 50 }) }));
  await replayButton().click();
  await shown();
  const scrolled = () => frame().locator("#terminal").evaluate((view) => view.scrollTop);
  assert.equal(await scrolled(), 0);
  await frame().locator("#position").press("End");
  await until(async () => (await scrolled()) > 50);
  await frame().locator("#position").press("0");
  await until(async () => (await scrolled()) === 0);
});

test("one of several recordings can be chosen, also by a prompt", async () => {
  await record();
  await terminal.line(`llm --attach ${session.slice(-8)} in another terminal`);
  await until(async () => (await daemon.api("GET", `/v1/sessions/${session}`)).prompts === 2);
  await endRecording();
  await openReplay();
  await command("in another terminal").waitFor();
  assert.ok(!(await panel().innerText()).includes("sleep"));
  const choice = panel().getByLabel("Recording", { exact: true });
  const [newest, oldest] = await choice.locator("option").evaluateAll((options) => options.map((option) => option.value));
  assert.equal(await choice.inputValue(), newest);
  await choice.selectOption(oldest);
  await command("sleep").waitFor();
  await shown();
  await until(async () => (await screen()).includes("ready> print"));
  assert.equal(page.frames().length, 2);
  const message = page.locator(".message.user").filter({ hasText: "in another terminal" });
  await message.getByRole("button", { name: "Replay here" }).click();
  await command("in another terminal").and(page.locator("[aria-current]")).waitFor();
  assert.equal(await choice.inputValue(), newest);
  await until(async () => (await screen()).includes("in another terminal"));
  assert.equal(page.frames().length, 2);
  assert.deepEqual(page.problems, []);
});

test("a recording that was deleted says so", async () => {
  await openSession();
  for (const { id } of await recorded()) await daemon.command("recording", "delete", id, "--yes");
  await replayButton().click();
  await panel().getByRole("alert").getByText("the session has no such recording").waitFor();
  assert.equal(page.frames().length, 1);
  assert.deepEqual(page.problems, []);
});

// What needs no browser.

const root = join(dirname(fileURLToPath(import.meta.url)), "..");
const bundle = await build({
  stdin: { contents: ["cast", "messages"].map((name) => `export * from "./src/replay/${name}";`).join("\n"), resolveDir: root },
  bundle: true,
  write: false,
  format: "esm",
});
const source = Buffer.from(bundle.outputFiles[0].contents).toString("base64");
const { readCast, readFromFrame, readLoad, readToFrame } = await import(`data:text/javascript;base64,${source}`);

test("pauses are shortened, and times can be converted both ways", () => {
  const cast = readCast(castOf([[1, "o", "a"], [10, "m", "x"], [0.5, "o", "b"], [4, "o", "c"], [0, "x", "0"]]), 2000);
  assert.deepEqual(cast.events.map(([ms]) => ms), [1000, 3000, 3500, 5500]);
  assert.deepEqual(cast.markers, [3000]);
  assert.equal(cast.durationMs, 15_500);
  const { timeline } = cast;
  for (const [recorded, shown] of [[0, 0], [1000, 1000], [2000, 2000], [11_000, 3000], [11_200, 3200], [13_000, 5000], [15_500, 5500]]) {
    assert.equal(timeline.toPlayer(recorded), shown);
    assert.equal(timeline.toRecording(shown), recorded);
  }
  // What is left out of a pause is at its end.
  assert.equal(timeline.toPlayer(9000), 3000);
});

test("messages of another form are ignored", () => {
  for (const data of [null, undefined, 1, "shown", [], {}, { type: "time", ms: "1" }, { type: "time", ms: Infinity }, { type: "time", ms: -1 }, { type: "error", text: 1 }, { type: "open" }]) {
    assert.equal(readFromFrame(data), null);
    assert.equal(readToFrame(data), null);
    assert.equal(readLoad(data), null);
  }
  assert.equal(readFromFrame({ type: "error", text: "x".repeat(1000) }).text.length, 300);
  assert.deepEqual(readToFrame({ type: "seek", ms: 5, more: 1 }), { type: "seek", ms: 5 });
  assert.equal(readLoad({ type: "load", cast: "text", idleMs: 1 }), null);
});
