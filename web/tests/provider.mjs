// A provider of answers for the tests. What it says depends on the prompt.

import { createServer } from "node:http";

export const HOSTILE = [
  "<script>window.hacked = 1; alert(1)</script>",
  "<img src=x onerror=\"window.hacked = 1\">",
  "",
  "[click](javascript:window.hacked=1) and [data](data:text/html,x) and ![pixel](http://192.0.2.1/pixel.png)",
  "",
  "bidi \u202Eevil\u202C and c1 \u009b31m and [safe](https://example.com/x)",
  "",
  "<iframe src=\"http://192.0.2.1/\"></iframe><style>body{display:none}</style>",
].join("\n");

/** Arguments that fill several screens. */
export const LONG = Array.from({ length: 400 }, (_, n) => `line ${n} of a long note`).join(" ");

/** A code block of 1.2 MB, with a line that has no end for long. */
export const LONG_CODE = [...Array.from({ length: 12_000 }, (_, n) => `line ${n} ${"x".repeat(80)}`), "y".repeat(60_000), "the end"].join("\n");

/** Time between two pieces of a steady answer, in milliseconds. */
const STEADY_MS = 25;

/**
 * Starts the provider on its own port. Until `release`, it holds answers to prompts with "slow" or "long table", and
 * continues with answers to prompts with "steady".
 */
export async function startProvider() {
  const held = [];
  const server = createServer(async (request, answer) => {
    if (request.method === "GET") {
      answer.setHeader("content-type", "application/json");
      return answer.end(JSON.stringify({ data: [{ id: "m" }, { id: "m2" }] }));
    }
    let body = "";
    for await (const chunk of request) body += chunk;
    const { messages, tools = [] } = JSON.parse(body);
    const prompt = lastPrompt(messages);
    const send = (value) => answer.write(`data: ${JSON.stringify(value)}\n\n`);
    const say = (content) => send({ choices: [{ delta: { content } }] });
    const end = (reason, usage) => {
      send({ choices: [{ delta: {}, finish_reason: reason }], usage });
      answer.end("data: [DONE]\n\n");
    };
    answer.writeHead(200, { "content-type": "text/event-stream" });
    const usage = { prompt_tokens: 1200, completion_tokens: 34 };
    if (messages.at(-1).role === "tool") {
      say("The tool has answered.");
      return end("stop", usage);
    }
    if (prompt.includes("delete the old files")) {
      const call = { name: "shell", arguments: JSON.stringify({ command: "rm -rf ~/old" }) };
      send({ choices: [{ delta: { tool_calls: [{ index: 0, id: "call_1", function: call }] } }] });
      return end("tool_calls", usage);
    }
    if (prompt.includes("use the tool") || prompt.includes("read the log")) {
      const isRead = prompt.includes("read the log");
      const wanted = isRead ? "read_log" : "write_note";
      const name = tools.map((tool) => tool.function.name).find((known) => known.includes(wanted));
      const call = { name, arguments: JSON.stringify(isRead ? {} : { text: prompt.includes("long text") ? LONG : "remember <b>this</b>" }) };
      const calls = (prompt.includes("twice") ? [1, 2] : [1]).map((n) => ({ index: n - 1, id: `call_${n}`, function: call }));
      send({ choices: [{ delta: { tool_calls: calls } }] });
      return end("tool_calls", usage);
    }
    if (prompt.includes("two tables")) {
      say(`${RICH}\n#\n\n| a | b |\n| - | - |\n| 1 | 2 |\n`);
      return end("stop", usage);
    }
    if (prompt.includes("wide table")) {
      const row = (cell) => `|${Array.from({ length: 12 }, (_, n) => `${cell}${n}`).join("|")}|`;
      say(`# ${"Long".repeat(40)}\n\n${row("column")}\n${row("-").replace(/\d+/g, "")}\n${row("cell")}`);
      return end("stop", usage);
    }
    if (prompt.includes("long table")) {
      say(`|a|b|c|d|e|f|g|h|i|j|\n|-|-|-|-|-|-|-|-|-|-|\n${LONG_TABLE}`);
      await new Promise((resolve) => held.push(resolve));
      return end("stop", usage);
    }
    if (prompt.includes("long code")) {
      say(`\`\`\`\n${LONG_CODE}\n\`\`\`\nCMD: echo done\n`);
      return end("stop", usage);
    }
    if (prompt.includes("fails")) {
      send({ error: { message: "out of order" } });
      return answer.end();
    }
    if (prompt.includes("hostile")) {
      say(HOSTILE);
      return end("stop", usage);
    }
    if (prompt.includes("rich") || prompt.includes("flood")) {
      for (const part of (prompt.includes("flood") ? FLOOD : RICH).match(/[^]{1,60}/g)) {
        say(part);
        await new Promise((resolve) => setImmediate(resolve));
      }
      return end("stop", usage);
    }
    say("First part. ");
    // The daemon holds the end of the text back while it may become a secret.
    if (prompt.includes("slow")) for (let n = 0; n < 200; n++) say("More words. ");
    if (prompt.includes("slow")) await new Promise((resolve) => held.push(resolve));
    if (prompt.includes("steady")) {
      let isHeld = true;
      held.push(() => {
        isHeld = false;
      });
      while (isHeld && !answer.destroyed) {
        say("More words. ");
        await new Promise((resolve) => setTimeout(resolve, STEADY_MS));
      }
    }
    say("Second part.");
    end("stop", usage);
  });
  await new Promise((resolve) => server.listen(0, "127.0.0.1", resolve));
  return {
    port: server.address().port,
    release: () => held.splice(0).forEach((resolve) => resolve()),
    close: () => {
      server.closeAllConnections();
      server.close();
    },
  };
}

function lastPrompt(messages) {
  const content = messages.findLast((message) => message.role === "user")?.content ?? "";
  return typeof content === "string" ? content : JSON.stringify(content);
}

export const RICH = `# Finding large files

Use \`du\` to see **what takes the space**, and *then* decide. See the [manual](https://example.com/du).

1. List the directories
2. Sort them
   - with sizes that people can read
   - largest first

CMD: du -xh --max-depth=2 /var | sort -rh | head -20

| option | meaning |
| --- | --- |
| \`-x\` | stay on one file system |
| \`-h\` | sizes such as 2.3G |

\`\`\`python
import shutil

def free(path: str) -> int:
    return shutil.disk_usage(path).free
\`\`\`

> Deleting logs does not help while a process has them open.

Then tell me what you see.
`;

/** Rows of 10,000 cells. */
const LONG_TABLE = Array.from({ length: 1000 }, (_, n) => `|${"x|".repeat(9)}${n}|\n`).join("");

/** An answer of 150 KB with all kinds of blocks. */
const FLOOD = Array.from({ length: 3000 }, (_, n) => {
  if (n % 7 === 3) return `\`\`\`js\nconst n = ${n};\nrun(n);\n\`\`\`\n\n`;
  if (n % 11 === 5) return "- item *one*\n- item `two`\n\n";
  return `Paragraph ${n} with **bold** and \`code\` words in it.\n\n`;
}).join("");
