// Builds the page into a folder: index.html, page.js and page.css, and the licences of what it contains.
//   node build.mjs FOLDER
import { copyFile, mkdir, readFile, writeFile } from "node:fs/promises";
import { dirname, join } from "node:path";
import { fileURLToPath } from "node:url";
import { build } from "esbuild";

const source = dirname(fileURLToPath(import.meta.url));
const folder = process.argv[2];
if (folder === undefined) throw new Error("usage: node build.mjs FOLDER");
await mkdir(folder, { recursive: true });

const result = await build({
  absWorkingDir: source,
  entryPoints: { page: "src/main.tsx" },
  outdir: folder,
  bundle: true,
  minify: true,
  format: "esm",
  target: "es2022",
  charset: "utf8",
  legalComments: "none",
  metafile: true,
});
await build({
  absWorkingDir: source,
  entryPoints: { page: "src/page.css" },
  outdir: folder,
  minify: true,
  target: "es2022",
});
await copyFile(join(source, "src/index.html"), join(folder, "index.html"));

// The packages of which the script contains a file.
const names = new Set();
for (const [input, { bytesInOutput }] of Object.entries(Object.values(result.metafile.outputs)[0].inputs)) {
  const name = /.*node_modules\/((?:@[^/]+\/)?[^/]+)/.exec(input)?.[1];
  if (name !== undefined && bytesInOutput > 0) names.add(name);
}
const texts = ["page.js contains parts of these packages.\n"];
for (const name of [...names].sort()) {
  const root = join(source, "node_modules", name);
  const { version, license } = JSON.parse(await readFile(join(root, "package.json"), "utf8"));
  const text = await readFile(join(root, "LICENSE"), "utf8");
  texts.push(`${name} ${version}, ${license}\n\n${text.trim()}\n`);
}
await writeFile(join(folder, "LICENSES.txt"), texts.join(`\n${"-".repeat(80)}\n`));
