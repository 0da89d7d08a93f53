// An MCP server for the tests: a tool that writes, so that the user is asked, and one that is allowed.

import { createInterface } from "node:readline";

const tools = [
  {
    name: "write_note",
    description: "Writes a note",
    inputSchema: { type: "object", properties: { text: { type: "string" } }, required: ["text"] },
  },
  { name: "read_log", description: "Reads the log", inputSchema: { type: "object", properties: {} } },
];

/** Longer than what is shown at first, with colours, a title sequence and a cursor movement. */
const LOG = [
  "\u001b]0;title\u0007\u001b[1;31merror\u001b[0m and \u001b[38;2;0;200;0mgreen\u001b[0m\u001b[2Jcleared",
  ...Array.from({ length: 300 }, (_, n) => `line ${n + 1} of the log with some words`),
].join("\n");

createInterface({ input: process.stdin }).on("line", (line) => {
  const { id, method, params } = JSON.parse(line);
  if (id === undefined) return;
  const result = {
    initialize: {
      protocolVersion: params?.protocolVersion ?? "2025-06-18",
      capabilities: { tools: {} },
      serverInfo: { name: "notes", version: "1" },
    },
    "tools/list": { tools },
    "tools/call": { content: [{ type: "text", text: params?.name === "read_log" ? LOG : "written" }] },
    ping: {},
  }[method];
  const answer = result ? { result } : { error: { code: -32601, message: "no such method" } };
  process.stdout.write(`${JSON.stringify({ jsonrpc: "2.0", id, ...answer })}\n`);
});
