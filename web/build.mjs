// Builds the page into dist/: files compressed with gzip, which the program embeds. The player of recordings is one file of
// its own, which the page loads only when a recording is opened.
// With --compare it writes nothing, and fails if the committed files hold something else.
//
// The result depends only on the sources and the pinned packages: gzip headers have no time and no name of a system.

import { createHash } from "node:crypto";
import { mkdirSync, readFileSync, writeFileSync } from "node:fs";
import { gunzipSync, gzipSync } from "node:zlib";
import { dirname, join } from "node:path";
import { fileURLToPath } from "node:url";
import { build } from "esbuild";

/** Maximum size of the first load, and of the player, in bytes. */
const LIMIT = 60 * 1024;
const PLAYER_LIMIT = 72 * 1024;
/** The byte of a gzip header that names the operating system, and its value "unknown". */
const OS_BYTE = 9;
const OS_UNKNOWN = 255;

const root = dirname(fileURLToPath(import.meta.url));
const source = (path) => readFileSync(join(root, path), "utf8");

const options = {
  bundle: true,
  minify: true,
  write: false,
  target: "es2022",
  legalComments: "none",
  charset: "utf8",
  define: { "process.env.NODE_ENV": '"production"' },
  logLevel: "warning",
};

/** The page uses only the lexer of marked, and what follows it in the file is not left out by itself. */
const LEXER_ONLY = /var \w+=class\{options;parser;constructor\(e\)[^]*export\{[^}]*\b(\w+) as Lexer\b[^}]*\b(\w+) as Tokenizer\b[^]*$/;

const slimMarked = {
  name: "slim-marked",
  setup(builder) {
    builder.onLoad({ filter: /marked[\\/]lib[\\/]marked\.esm\.js$/ }, ({ path }) => {
      const contents = readFileSync(path, "utf8");
      if (!LEXER_ONLY.test(contents)) throw new Error("marked has changed: its lexer is not found");
      return { contents: contents.replace(LEXER_ONLY, "export{$1 as Lexer,$2 as Tokenizer};"), loader: "js" };
    });
  },
};

/** Builds the page. Its entry names the other files with a version, so that a browser can keep them without asking. */
async function buildPage() {
  const result = await build({
    ...options,
    entryPoints: { app: join(root, "src/main.tsx") },
    outdir: join(root, "dist"),
    plugins: [slimMarked],
    format: "esm",
    jsx: "automatic",
    jsxImportSource: "preact",
  });
  const files = new Map([["icon.svg", readFileSync(join(root, "src/icon.svg"))]]);
  for (const file of result.outputFiles) {
    files.set(file.path.endsWith(".css") ? "app.css" : "app.js", Buffer.from(file.contents));
  }
  const digest = createHash("sha256").update(files.get("app.js")).update(files.get("app.css"));
  const version = `v=${digest.digest("hex").slice(0, 16)}`;
  const index = source("src/index.html").replace(/"\/app\.(js|css)"/g, (path) => `${path.slice(0, -1)}?${version}"`);
  files.set("index.html", Buffer.from(index));
  put("version.txt", `${version}\n`);
  return ["index.html", "app.js", "app.css", "icon.svg"].map((name) => [name, files.get(name)]);
}

/** Stands for the WebAssembly of the terminal emulator until the script is minified. */
const WASM_MARK = '"@wasm@"';

/**
 * Parts of asciinema-player that are left out: sources other than a recording in memory, its controls, which cannot be used
 * by keyboard, and its help. Base64 compresses badly, so the WebAssembly is taken out of it.
 */
const PLAYER_CHANGES = [
  [/const DRIVERS = new Map\(.*\);/, () => 'const DRIVERS = new Map([["recording", recording]]);'],
  [/const PARSERS = new Map\(.*\);/, () => "const PARSERS = new Map();"],
  [/return loadSegmentedRecording\(src, options\);/, () => "return;"],
  [/function formatKeystroke\(/, () => "function formatKeystroke() { return null; }\nfunction unusedFormatKeystroke("],
  ...["ControlBar", "KeystrokesOverlay", "HelpOverlay"].map((part) => [
    new RegExp(`var ${part} = (?=props =>)`),
    () => `var ${part} = () => null;\nvar unused${part} = `,
  ]),
  [/base64Decode\("[A-Za-z0-9+/=]+"\)/, () => `Uint8Array.from(${WASM_MARK}, (char) => char.charCodeAt(0))`],
];

/** Applies the changes, each of which must be possible in one file of the package. Collects the WebAssembly. */
function slimPlayer(found) {
  return {
    name: "slim-player",
    setup(builder) {
      builder.onLoad({ filter: /asciinema-player[\\/]dist[\\/][^\\/]+\.js$/ }, ({ path }) => {
        let contents = readFileSync(path, "utf8");
        const wasm = /base64Decode\("([A-Za-z0-9+/=]+)"\)/.exec(contents);
        if (wasm) found.wasm = Buffer.from(wasm[1], "base64");
        for (const change of PLAYER_CHANGES) {
          const [pattern, replacement] = change;
          if (!pattern.test(contents)) continue;
          contents = contents.replace(pattern, replacement);
          found.changes.add(change);
        }
        return { contents, loader: "js" };
      });
    },
  };
}

/** Bytes as a literal of characters with their codes. Those that a script in HTML cannot hold have 256 added. */
function literal(bytes) {
  const special = [0, ...Buffer.from('\n\r"\\<')];
  return `"${Array.from(bytes, (byte) => String.fromCharCode(special.includes(byte) ? byte + 256 : byte)).join("")}"`;
}

/** Builds the player: a document that loads nothing, the hash of its script for its policy, and the licences. */
async function buildPlayer() {
  const found = { changes: new Set(), wasm: null };
  const scripts = await build({
    ...options,
    entryPoints: [join(root, "src/replay/frame.ts")],
    format: "iife",
    plugins: [slimPlayer(found)],
  });
  const missing = PLAYER_CHANGES.filter((change) => !found.changes.has(change));
  if (missing.length > 0) throw new Error(`asciinema-player has no ${missing.map(([pattern]) => pattern).join(", ")}`);
  const styles = await build({ ...options, entryPoints: [join(root, "src/replay/frame.css")] });
  const script = scripts.outputFiles[0].text.trim().replace(WASM_MARK, () => literal(found.wasm));
  if (/<\/script|<!--/i.test(script)) throw new Error("the script of the player would end within its element");
  const html = source("src/replay/frame.html")
    .replace("@style@", () => styles.outputFiles[0].text.trim())
    .replace("@script@", () => script);
  return [
    Buffer.from(html),
    `sha256-${createHash("sha256").update(script).digest("base64")}\n`,
    licences(["asciinema-player", "solid-js"]),
  ];
}

function licences(packages) {
  const texts = packages.map((name) => {
    const { version, license } = JSON.parse(source(`node_modules/${name}/package.json`));
    return `${name} ${version} (${license})\n\n${source(`node_modules/${name}/LICENSE`).trim()}\n`;
  });
  return `replay.html contains parts of these packages, some of them changed by build.mjs.\n\n${texts.join(`\n${"-".repeat(72)}\n\n`)}`;
}

const compares = process.argv.includes("--compare");

/** Writes a file, or compares it. */
function put(name, content, read = (bytes) => bytes) {
  const path = join(root, "dist", name);
  const bytes = Buffer.from(content);
  if (!compares) return writeFileSync(path, bytes);
  // By what they hold: other versions of zlib compress differently.
  if (read(readFileSync(path)).equals(read(bytes))) return;
  console.error(`${path} is not what the sources give; run: npm run build`);
  process.exit(1);
}

/** Puts a file compressed; returns its size. */
function putPacked(name, content) {
  const packed = gzipSync(content, { level: 9 });
  packed[OS_BYTE] = OS_UNKNOWN;
  put(`${name}.gz`, packed, gunzipSync);
  console.log(`${name.padEnd(12)} ${String(packed.length).padStart(6)} bytes`);
  return packed.length;
}

function check(name, size, limit) {
  console.log(`${name.padEnd(12)} ${String(size).padStart(6)} bytes of at most ${limit}`);
  if (size <= limit) return;
  console.error(`the ${name} is too large`);
  process.exit(1);
}

mkdirSync(join(root, "dist"), { recursive: true });
let total = 0;
for (const [name, content] of await buildPage()) total += putPacked(name, content);
check("first load", total, LIMIT);
const [html, hash, texts] = await buildPlayer();
check("player", putPacked("replay.html", html), PLAYER_LIMIT);
put("replay.sha256", hash);
put("replay.LICENSE.txt", texts);
