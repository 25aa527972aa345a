// Builds the page into a folder: index.html, page.js and page.css; report.html, to which the data of a report are
// appended; and the licences of what both contain.
//   node build.mjs FOLDER
import { createHash } from "node:crypto";
import { copyFile, mkdir, readFile, writeFile } from "node:fs/promises";
import { dirname, join } from "node:path";
import { fileURLToPath } from "node:url";
import { build } from "esbuild";

const source = dirname(fileURLToPath(import.meta.url));
const folder = process.argv[2];
if (folder === undefined) throw new Error("usage: node build.mjs FOLDER");
await mkdir(folder, { recursive: true });

const options = { absWorkingDir: source, bundle: true, minify: true, target: "es2022" };
// These properties of our own get shorter names. None of them is in a message or is looked up by a string.
const mangleProps = /^(chooseSpan|listOthers|lostSince|setErrorLimit|labelDiagram|picture|controls|strength|sending|ground|compared|axis|above|advice|bottom|curve|facts|marks|reached|valid|ticks)$/;
const script = { ...options, format: "esm", charset: "utf8", legalComments: "none", metafile: true, mangleProps };
const page = await build({ ...script, entryPoints: { page: "src/main.tsx" }, outdir: folder });
await build({ ...options, entryPoints: { page: "src/page.css" }, outdir: folder });
await copyFile(join(source, "src/index.html"), join(folder, "index.html"));

const report = await build({ ...script, entryPoints: ["src/report/main.tsx"], write: false });
const style = await build({ ...options, write: false,
  stdin: { contents: '@import "./page.css"; @import "./report/report.css";', resolveDir: join(source, "src"), loader: "css" } });

// The packages of which the scripts contain a file.
const names = new Set();
for (const { metafile } of [page, report]) {
  for (const [input, { bytesInOutput }] of Object.entries(Object.values(metafile.outputs)[0].inputs)) {
    const name = /.*node_modules\/((?:@[^/]+\/)?[^/]+)/.exec(input)?.[1];
    if (name !== undefined && bytesInOutput > 0) names.add(name);
  }
}
const texts = ["page.js and report.html contain parts of these packages.\n"];
for (const name of [...names].sort()) {
  const root = join(source, "node_modules", name);
  const { version, license } = JSON.parse(await readFile(join(root, "package.json"), "utf8"));
  const text = await readFile(join(root, "LICENSE"), "utf8");
  texts.push(`${name} ${version}, ${license}\n\n${text.trim()}\n`);
}
const licences = texts.join(`\n${"-".repeat(80)}\n`);
await writeFile(join(folder, "LICENSES.txt"), licences);

// Where a text in the report would end.
const ENDS = { LICENCES: /-->/, SCRIPT: /<!--|<\/script/i, STYLE: /<!--|<\/style/i };
const hashOf = (text) => `'sha256-${createHash("sha256").update(text).digest("base64")}'`;
const [code, look] = [report, style].map(({ outputFiles }) => outputFiles[0].text);
const policy = `default-src 'none'; script-src ${hashOf(code)}; style-src ${hashOf(look)}; base-uri 'none'; form-action 'none'`;
const parts = { POLICY: policy, LICENCES: licences, STYLE: look, SCRIPT: code };
for (const [name, end] of Object.entries(ENDS)) if (end.test(parts[name])) throw new Error(`${name} would end early`);
const template = await readFile(join(source, "src/report/report.html"), "utf8");
await writeFile(join(folder, "report.html"), template.replace(/POLICY|LICENCES|STYLE|SCRIPT/g, (name) => parts[name]));
