// Serves dist/ with the headers of the real server and passes everything else on to it, for work on the page without
// building the program: node tests/server.mjs TARGET_PORT [PORT]

import { readFileSync } from "node:fs";
import { createServer, request } from "node:http";
import { dirname, join } from "node:path";
import { fileURLToPath } from "node:url";

const dist = join(dirname(fileURLToPath(import.meta.url)), "../dist");
const POLICY =
  "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' data:; connect-src 'self'; frame-src 'self'; " +
  "frame-ancestors 'none'; base-uri 'none'; form-action 'none'; require-trusted-types-for 'script'; trusted-types 'none'";
/** The frame of the player has no origin, and can load nothing. */
const playerPolicy = () =>
  `default-src 'none'; script-src '${readFileSync(join(dist, "replay.sha256"), "utf8").trim()}' 'wasm-unsafe-eval'; ` +
  "style-src 'unsafe-inline'; img-src data:; font-src data:; frame-ancestors 'self'; base-uri 'none'; form-action 'none'; " +
  "sandbox allow-scripts";
const FILES = {
  "/app.js": ["app.js", "text/javascript; charset=utf-8"],
  "/app.css": ["app.css", "text/css; charset=utf-8"],
  "/icon.svg": ["icon.svg", "image/svg+xml"],
  "/replay": ["replay.html", "text/html; charset=utf-8"],
};
const API = /^\/(v1(\/|$)|share\/|health$|version$|doc$|openapi\.json$)/;

/** What the page itself makes of a path. */
const ROUTE = /^\/(activity|shares|s\/.*)?$/;

export function startProxy(target, port = 0) {
  const server = createServer((incoming, answer) => {
    const path = new URL(incoming.url, "http://page").pathname;
    if (API.test(path)) return pass(target, incoming, answer);
    const [name, kind] = FILES[path] ?? ["index.html", "text/html; charset=utf-8"];
    answer.writeHead(FILES[path] || ROUTE.test(path) ? 200 : 404, {
      "content-type": kind,
      "content-encoding": "gzip",
      "cache-control": "no-cache",
      "content-security-policy": path === "/replay" ? playerPolicy() : POLICY,
      "x-content-type-options": "nosniff",
      "referrer-policy": "no-referrer",
      "cross-origin-opener-policy": "same-origin",
      "cross-origin-resource-policy": "same-origin",
    });
    answer.end(readFileSync(join(dist, `${name}.gz`)));
  });
  return new Promise((resolve) => {
    server.listen(port, "127.0.0.1", () => resolve({ server, port: server.address().port }));
  });
}

function pass(target, incoming, answer) {
  const own = `127.0.0.1:${target}`;
  const headers = { ...incoming.headers, host: own };
  if (headers.origin) headers.origin = `http://${own}`;
  const { method, url: path } = incoming;
  const outgoing = request({ host: "127.0.0.1", port: target, method, path, headers }, (received) => {
    answer.writeHead(received.statusCode, received.headers);
    received.pipe(answer);
    // A cut of the server is a cut for the page.
    received.on("error", () => answer.destroy());
    received.on("close", () => received.complete || answer.destroy());
  });
  outgoing.on("error", () => answer.destroy());
  answer.on("close", () => outgoing.destroy());
  incoming.pipe(outgoing);
}

if (process.argv[1] === fileURLToPath(import.meta.url)) {
  const [target, port] = process.argv.slice(2).map(Number);
  const started = await startProxy(target, port || 0);
  console.log(`http://127.0.0.1:${started.port}`);
}
