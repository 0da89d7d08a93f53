import assert from "node:assert/strict";
import { test } from "node:test";
import { dirname, join } from "node:path";
import { fileURLToPath } from "node:url";
import { build } from "esbuild";
import { Lexer } from "marked";

const root = join(dirname(fileURLToPath(import.meta.url)), "..");
const modules = ["api/sse", "text/ansi", "text/entities", "text/format", "text/lexer", "text/markdown", "text/portion", "text/segments", "text/visible", "state/export", "state/items", "state/live", "state/shares"];
const bundle = await build({
  stdin: { contents: modules.map((name) => `export * from "./src/${name}";`).join("\n"), resolveDir: root },
  bundle: true,
  write: false,
  format: "esm",
  jsx: "automatic",
  jsxImportSource: "preact",
});
const source = Buffer.from(bundle.outputFiles[0].contents).toString("base64");
// Modules of the page look at its address when they are loaded.
globalThis.location = { pathname: "/" };
globalThis.addEventListener = () => {};
const {
  Blocks, EventParser, GrowingLexer, ansiSpans, applyEvent, decodeEntities, duration, linkResults, messageAsMarkdown, portion, reachWords, safeHref, segments, unanswered, visible,
} = await import(
  `data:text/javascript;base64,${source}`
);

/** CPU time in ms of some work, the least of three times; other programs do not count. */
function cpuMs(work) {
  const times = [1, 2, 3].map(() => {
    const before = process.cpuUsage();
    work();
    return process.cpuUsage(before).user / 1000;
  });
  return Math.min(...times);
}

/** Asserts that work on four times the text does not take much more than four times as long: a search from each place takes 16 times. */
function assertGrowsWithText(name, n, work) {
  const quarter = cpuMs(() => work(n / 4));
  const whole = cpuMs(() => work(n));
  assert.ok(whole < 12 * quarter + 100, `${name}: ${quarter} ms of CPU time for a quarter, ${whole} ms for the whole`);
}

test("server-sent events are the same however the stream is cut", () => {
  const stream = "id: 1.0\nevent: a\ndata: {\"x\":1}\n\n: comment\r\ndata: one\r\ndata:two\r\nid: 2\r\n\r\ndata: half";
  const expected = [{ id: "1.0", data: '{"x":1}' }, { id: "2", data: "one\ntwo" }];
  for (let size = 1; size <= stream.length; size++) {
    const parser = new EventParser();
    const events = [];
    for (let i = 0; i < stream.length; i += size) events.push(...parser.push(stream.slice(i, i + size)));
    assert.deepEqual(events, expected, `chunks of ${size}`);
  }
});

test("hidden characters are shown, line ends and tabs stay", () => {
  assert.equal(visible("a\r\nb\tc\rd"), "a\nb\tc⟨U+000D⟩d");
  assert.equal(visible("\u202Ex\u2066y\u200F\u061C\u0007\u007F\u0085"), "⟨U+202E⟩x⟨U+2066⟩y⟨U+200F⟩⟨U+061C⟩⟨U+0007⟩⟨U+007F⟩⟨U+0085⟩");
  assert.equal(visible("a\u200Bb\u200C\u2060\uFEFF\u00AD\u2028\u2029\u{E0041}"), "a⟨U+200B⟩b⟨U+200C⟩⟨U+2060⟩⟨U+FEFF⟩⟨U+00AD⟩⟨U+2028⟩⟨U+2029⟩⟨U+E0041⟩");
  assert.equal(visible("größe 日本 👩‍💻"), "größe 日本 👩‍💻");
});

test("only absolute links with safe protocols can be followed", () => {
  assert.equal(safeHref("https://example.com/a b".replace(" ", "%20")), "https://example.com/a%20b");
  assert.equal(safeHref("mailto:a@example.com"), "mailto:a@example.com");
  for (const href of [
    "javascript:alert(1)", "JavaScript:alert(1)", "java\tscript:alert(1)", " javascript:alert(1)", "\u0001javascript:alert(1)",
    "data:text/html,x", "vbscript:x", "file:///etc/passwd", "/v1/sessions", "//example.com", "blob:http://x/1", "x",
  ]) assert.equal(safeHref(href), null, JSON.stringify(href));
});

test("entities become characters, in any number", () => {
  assert.equal(decodeEntities("&lt;a&gt; &amp;amp; &#x41;&#66; &unknown; &#0; &#x110000;"), "<a> &amp; AB &unknown; &#0; &#x110000;");
});

test("SGR becomes classes, other escapes are dropped", () => {
  assert.deepEqual(ansiSpans("a\u001b[1;31mb\u001b[0mc"), [
    { text: "a", classes: "" },
    { text: "b", classes: "ansi-bold ansi-1" },
    { text: "c", classes: "" },
  ]);
  assert.deepEqual(ansiSpans("\u001b]8;;http://x\u0007link\u001b]8;;\u001b\\ \u001b[2J\u001b[?25l\u001b(Bend\u001bP1q\u001b\\"), [
    { text: "link end", classes: "" },
  ]);
  assert.deepEqual(ansiSpans("\u001b[38;5;196mr\u001b[39;48;2;0;0;255mb"), [
    { text: "r", classes: "ansi-9" },
    { text: "b", classes: "ansi-on-12" },
  ]);
  assert.deepEqual(ansiSpans("x\u001b"), [{ text: "x", classes: "" }]);
  for (const [codes, classes] of [
    ["4:3", "ansi-underline"], ["4;4:0", ""], ["38:2::255:0:0", "ansi-9"], ["38:2:255:0:0", "ansi-9"], ["48:5:1", "ansi-on-1"],
    ["38:2::255:0:0;1", "ansi-bold ansi-9"], ["58;5;1", ""], ["58:2::1:3:4;3", "ansi-italic"], [">4;1", ""],
  ]) assert.equal(ansiSpans(`\u001b[${codes}mx`)[0].classes, classes, codes);
});

test("lines that a program writes over are shown as a terminal shows them", () => {
  const red = (text) => `\u001b[31m${text}\u001b[0m`;
  for (const [output, shown] of [
    ["10%\r 20%\r100%\nend\r\n", "100%\nend\n"], ["abc\rX", "Xbc"], ["abc\b\bX\n", "aXc\n"], ["N\bNA\bA", "NA"], ["\b\bx\r\r\ny", "x\ny"],
    ["a long line\r\u001b[Kshort", "short"], ["a long line\u001b[2K\rshort", "short"], ["kept\r", "kept"],
  ]) assert.equal(ansiSpans(output).map(({ text }) => text).join(""), shown, JSON.stringify(output));
  assert.deepEqual(ansiSpans(`${red("red")}\rG`), [{ text: "G", classes: "" }, { text: "ed", classes: "ansi-1" }]);
  // A string that does not end takes its line only.
  assert.deepEqual(ansiSpans("a\u001b]0;title\nb\u001bPq"), [{ text: "a\nb", classes: "" }]);
});

test("a duration has no 60 seconds", () => {
  const shown = [999, 1000, 59_940, 59_960, 119_600, 125_000].map(duration);
  assert.deepEqual(shown, ["999 ms", "1.0 s", "59.9 s", "1 min 0 s", "2 min 0 s", "2 min 5 s"]);
});

test("a table or a list of thousands is shown in part, from its start or its end", () => {
  const lines = (line) => Array.from({ length: 2000 }, (_, n) => line(n)).join("\n");
  const first = (text, isEnd) => portion(new GrowingLexer().lex(text), 400, isEnd);
  for (const isEnd of [false, true]) {
    const table = first(`| a | b |\n| - | - |\n${lines((n) => `| ${n} | x |`)}\n`, isEnd);
    const rows = table.tokens[0].rows.map(([cell]) => cell.text);
    assert.ok(table.isCut && rows.length > 50 && rows.length < 200, `${rows.length} rows`);
    assert.equal(rows.at(isEnd ? -1 : 0), isEnd ? "1999" : "0");
    const list = first(`> ${lines((n) => `${n + 1}. item *${n}*`).replaceAll("\n", "\n> ")}\n`, isEnd);
    const [{ items, start }] = list.tokens[0].tokens;
    assert.ok(list.isCut && items.length > 50 && items.length < 400, `${items.length} items`);
    assert.equal(start, isEnd ? 2001 - items.length : 1);
  }
  const short = first("one\n\n- two\n\n```\nthree\n```\n", false);
  assert.deepEqual([short.isCut, short.tokens.length], [false, new GrowingLexer().lex("one\n\n- two\n\n```\nthree\n```\n").length]);
});

test("prompts without an answer are found", () => {
  const keys = (kinds, isOver) => unanswered([...kinds].map((kind, key) => ({ kind: { u: "user", a: "assistant", t: "tool", w: "waiting", n: "notice" }[kind], key: `${key}` })), isOver).map(Number);
  for (const [kinds, isOver, expected] of [
    ["uau", true, [2]], ["uau", false, []], ["uua", true, [0]], ["unwa", true, []], ["utu", true, [2]], ["ua", true, []], ["unu", true, [0, 2]],
  ]) assert.deepEqual(keys(kinds, isOver), expected, `${kinds} ${isOver}`);
});

test("commands stand where the server says", () => {
  const text = "größe\n\nCMD: ls\r\n\nmore\u2028text\n```\nCMD: a\nCMD: b\n```\nCMD: id";
  const proposals = [
    { first_line: 2, lines: 1, commands: ["ls"] },
    { first_line: 5, lines: 4, commands: ["a", "b"] },
    { first_line: 9, lines: 1, commands: ["id"] },
  ];
  const command = (words) => ({ kind: "command", text: words });
  const parts = [
    { kind: "markdown", text: "größe\n\n" }, command("ls"), { kind: "markdown", text: "\nmore\u2028text\n" },
    command("a"), command("b"), command("id"),
  ];
  assert.deepEqual(segments(text, proposals), parts);
  // Only the beginning of the answer is shown.
  assert.deepEqual(segments(text.slice(0, text.indexOf("\n```")), proposals), [...parts.slice(0, 2), { kind: "markdown", text: "\nmore\u2028text" }]);
  assert.deepEqual(segments(text, []), [{ kind: "markdown", text }]);
  assert.deepEqual(segments(" \n", []), []);
});

test("a growing answer has the same tokens as a whole one", () => {
  const text = "# A\n\nfirst *para*\n\n- one\n- two\n\n  more\n- three\n\n```js\nlet a;\n```\n\n| a |\n| - |\n| 1 |\n\nend\n\n> quote\n";
  const shapes = (tokens) => tokens.filter(({ type }) => type !== "space").map(({ type, raw }) => [type, raw.trim()]);
  const growing = new GrowingLexer();
  for (let i = 1; i <= text.length; i++) growing.lex(text.slice(0, i));
  assert.deepEqual(shapes(growing.lex(text)), shapes(new GrowingLexer().lex(text)));
});

test("a growing answer is not lexed from its beginning for each piece", () => {
  const pieces = Array.from({ length: 2000 }, (_, i) => `Paragraph ${i} with *words*.\n\n`);
  const once = cpuMs(() => new GrowingLexer().lex(pieces.join("")));
  const growing = cpuMs(() => {
    const lexer = new GrowingLexer();
    let text = "";
    for (const piece of pieces) lexer.lex((text += piece));
  });
  // From the beginning, it would take a thousand times as long on average.
  assert.ok(growing < 250 * once + 100, `${once} ms of CPU time at once, ${growing} ms in pieces`);
});

test("the lines of an item are read as the lexer alone reads them", () => {
  const lines = ["a", "  b c", "===", "--- | ---", "- x", "1. z", "2) q", "> q", "```", "<div>", "[a]: http://x", "| a | b |", "# h", "    code", "\tt", "", "***", "*e*", "x  ", "  \tt"];
  for (const one of lines) for (const two of lines) for (const three of lines) {
    const text = `- first\nlast\n${one}\n${two}\nw *e*\n${three}\nend`;
    const lexer = new Lexer({ gfm: true });
    lexer.blockTokens(text, lexer.tokens);
    for (let i = 0; i < lexer.inlineQueue.length; i++) lexer.inlineTokens(lexer.inlineQueue[i].src, lexer.inlineQueue[i].tokens);
    assert.equal(JSON.stringify(new GrowingLexer().lex(text)), JSON.stringify([...lexer.tokens]), text);
  }
});

test("text made to be slow or deep does not stop the page", () => {
  const texts = [
    (n) => "_a_".repeat(n / 3), (n) => ">".repeat(n), (n) => "- ".repeat(n / 2), (n) => "1) ".repeat(n / 3), (n) => "[".repeat(n),
    (n) => "`".repeat(n), (n) => `${"a.".repeat(n / 2)}@`, (n) => "[a](".repeat(n / 4), (n) => "|a".repeat(n / 2),
  ];
  for (const line of ["a", "12345", "<a", "[", ": a"]) texts.push((n) => `- first\n${`${line}\n`.repeat((n * 0.3) / (line.length + 1))}`);
  for (const text of texts) {
    assertGrowsWithText(text(40), 100_000, (n) => assert.ok(new GrowingLexer().lex(text(n)).length > 0));
  }
});

test("results are put to the latest call with their id, others stay entries", () => {
  const base = { number: 1, timestampMs: 0, text: "", omitted: 0, calls: [], detail: {}, isLive: false };
  const call = { id: "c1", name: "t", arguments: "{}", output: "", isRunning: false };
  const tool = (recordId) => ({ ...base, kind: "tool", key: recordId, messageId: "c1", recordId, detail: { status: "success" } });
  const answer = (key) => ({ ...base, kind: "assistant", key, messageId: key, calls: [call] });
  const linked = linkResults([tool("r0"), answer("a"), tool("r1"), answer("b"), tool("r2")]);
  assert.deepEqual(linked.map(({ key }) => key), ["r0", "a", "b"]);
  assert.deepEqual(linked.slice(1).map(({ calls }) => calls[0].result.recordId), ["r1", "r2"]);
});

test("output goes to the call that it is of", () => {
  const call = (id) => ({ id, name: "t", arguments: "{}", output: "", isRunning: true });
  let items = [{ kind: "assistant", key: "a", messageId: "a", calls: [call("c1"), call("c2")], isLive: false }];
  const model = {
    update(change) {
      const next = [...items];
      change(next);
      items = next;
    },
  };
  for (const [id, words] of [["c2", "two"], ["c1", "one"], ["c2", " more"], ["c3", "of no call"]]) {
    applyEvent(model, { type: "tool.delta", ts: "", payload: { call_id: id, text: words } });
  }
  assert.deepEqual(items[0].calls.map(({ output }) => output), ["one", "two more"]);
});

test("erasing in a line keeps the column of the cursor", () => {
  for (const [output, shown] of [
    ["abcdef\rxy\u001b[1K", "   def"], ["abc\b\u001b[2KX", "  X"], ["abc\r\u001b[2KX", "X"], ["abc\r\u001b[KX", "X"],
    ["abc\u001b[2Kdef", "   def"], ["first\u001b[2K\u001b[1Gsecond", "second"], ["abc\u001b[1GX", "Xbc"], ["a\u001b[4GX", "a  X"],
    ["abcd\u001b[2G\u001b[1K\u001b[1Gx\u001b[3G\u001b[1K", "   d"], [`a\u001b[${"9".repeat(9)}Gx`, `a${" ".repeat(499)}x`],
  ]) assert.equal(ansiSpans(output).map(({ text }) => text).join(""), shown, JSON.stringify(output));
});

test("only double tildes strike out, and a link contains no other link", () => {
  const html = (node) => {
    if (Array.isArray(node)) return node.map(html).join("");
    if (node === null || typeof node !== "object") return String(node ?? "");
    const content = html(node.props.children ?? node.props.text);
    return typeof node.type === "string" ? `<${node.type}>${content}</${node.type}>` : content;
  };
  for (const [answer, shown] of [
    ["H~2~O", "<p>H~2~O</p>"], ["~~old~~", "<p><del>old</del></p>"],
    ["[![alt](https://a.example/i.png)](https://a.example/)", "<p><a>alt</a></p>"],
    ["[*![alt](https://a.example/i.png)*](https://a.example/)", "<p><a><em>alt</em></a></p>"],
  ]) assert.equal(html(Blocks({ tokens: new GrowingLexer().lex(answer) })), shown, answer);
});

test("erasing the start of a long line again and again takes no time", () => {
  assertGrowsWithText("erased lines", 60_000, (n) => ansiSpans(`${"y".repeat(n)}${"\u001b[1K".repeat(n / 4)}\r`));
});

test("only a server at a name of the machine itself is said to be reached from it alone", () => {
  for (const [host, isAlone] of [
    ["127.0.0.1", true], ["127.1.2.3", true], ["[::1]", true], ["localhost", true],
    ["laptop.example", false], ["192.0.2.1", false], ["[2001:db8::1]", false], ["127.0.0.1.example", false], ["notlocalhost", false],
  ]) assert.equal(reachWords(host).includes("this machine only"), isAlone, host);
});

test("a session as Markdown has the calls, the output and the errors", () => {
  const message = (role, content, detail, more = {}) => messageAsMarkdown({ role, content, detail, ...more });
  const call = { id: "c", name: "notes.write", arguments: '{"text":"```x```"}' };
  const output = { head: "\u001b[31mred\u001b[0m", omitted: 7, tail: "end" };
  for (const [shown, expected] of [
    [message("user", "line one\r\nline two\rline three\b \u001b[31mred\u001b[0m", {}), "## Prompt\n\nline one\nline two\nline three\b red"],
    [message("user", "The command has ended; go on.", {}), "## Continued with the output"],
    [message("assistant", "Text.", { finish: "stop" }, { tool_calls: [call] }), '## Answer\n\nText.\n\n### Call: notes.write\n\n````\n{"text":"```x```"}\n````'],
    [message("assistant", "", { finish: "error", error: "out of order" }), "## Answer\n\nThe answer failed. out of order"],
    [message("assistant", " ", { finish: "stop" }), ""],
    [message("assistant", "Old.", { finish: "stop" }, { is_summary: true }), "## Summary of the older part\n\nOld."],
    [message("tool", "\u001b[31mno\u001b[0m", { name: "n.w", status: "tool_error", error: "bad" }), "### Result: n.w (the tool reported an error)\n\nbad\n\n```\nno\n```"],
    [message("command", "", { command: "ls", choice: "run" }), "### Command: Approved and run in the terminal\n\n```\nls\n```"],
    [message("command", "", { command: "ls", exit: 2, duration_ms: 5, output }), "### Command: Ended with exit code 2 after 5 ms\n\n```\nls\n```\n\n```\nred\n[7 bytes are left out]\nend\n```"],
  ]) assert.equal(shown, expected);
});
