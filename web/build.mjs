// Builds the page into dist/: four files compressed with gzip, which the program embeds.
// With --compare it writes nothing, and fails if the committed files hold something else.
//
// The result depends only on the sources and the pinned packages: gzip headers have no time and no name of a system.

import { mkdirSync, readFileSync, writeFileSync } from "node:fs";
import { gunzipSync, gzipSync } from "node:zlib";
import { dirname, join } from "node:path";
import { fileURLToPath } from "node:url";
import { build } from "esbuild";

/** Maximum size of the first load, in bytes. */
const LIMIT = 60 * 1024;
/** The byte of a gzip header that names the operating system, and its value "unknown". */
const OS_BYTE = 9;
const OS_UNKNOWN = 255;

const root = dirname(fileURLToPath(import.meta.url));

const result = await build({
  entryPoints: { app: join(root, "src/main.tsx") },
  outdir: join(root, "dist"),
  bundle: true,
  minify: true,
  write: false,
  format: "esm",
  target: "es2022",
  jsx: "automatic",
  jsxImportSource: "preact",
  legalComments: "none",
  charset: "utf8",
  define: { "process.env.NODE_ENV": '"production"' },
  logLevel: "warning",
});

const files = new Map([
  ["index.html", readFileSync(join(root, "src/index.html"))],
  ["icon.svg", readFileSync(join(root, "src/icon.svg"))],
]);
for (const file of result.outputFiles) {
  files.set(file.path.endsWith(".css") ? "app.css" : "app.js", Buffer.from(file.contents));
}

mkdirSync(join(root, "dist"), { recursive: true });
const compares = process.argv.includes("--compare");
let total = 0;
for (const name of ["index.html", "app.js", "app.css", "icon.svg"]) {
  const packed = gzipSync(files.get(name), { level: 9 });
  packed[OS_BYTE] = OS_UNKNOWN;
  const path = join(root, "dist", `${name}.gz`);
  // By what they hold: other versions of zlib compress differently.
  if (compares && !gunzipSync(readFileSync(path)).equals(Buffer.from(files.get(name)))) {
    console.error(`${path} is not what the sources give; run: npm run build`);
    process.exit(1);
  }
  if (!compares) writeFileSync(path, packed);
  total += packed.length;
  console.log(`${name.padEnd(12)} ${String(packed.length).padStart(6)} bytes`);
}
console.log(`${"first load".padEnd(12)} ${String(total).padStart(6)} bytes of at most ${LIMIT}`);
if (total > LIMIT) {
  console.error("the first load is too large");
  process.exit(1);
}
