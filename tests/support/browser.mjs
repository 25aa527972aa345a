// Drives Chromium for a test in another language: reads lines of JSON, each with the body of an
// asynchronous function of `page`, and answers each with a line of JSON: {"value": ...} or {"error": ...}.
//   node browser.mjs NODE_MODULES ORIGIN
import { createRequire } from "node:module";
import { readFileSync } from "node:fs";
import { createInterface } from "node:readline";

const [, , modules, origin] = process.argv;
const require = createRequire(`${modules}/`);
const { chromium } = require("playwright-core");
const axe = readFileSync(require.resolve("axe-core/axe.min.js"), "utf8");

const browser = await chromium.launch({
  executablePath: "/usr/bin/chromium",
  // The sandbox does not run as root.
  args: process.getuid() === 0 ? ["--no-sandbox"] : [],
});
// Scripts of a test, such as axe, are not part of the page and of its policy: they are evaluated.
const context = await browser.newContext({ acceptDownloads: true });
const page = await context.newPage();
// A busy machine draws late.
page.setDefaultTimeout(180000);
// What no page may cause.
const faults = [];
page.on("console", (message) => faults.push(`console ${message.type()}: ${message.text()}`));
page.on("pageerror", (error) => faults.push(`error: ${error.message}`));
page.on("dialog", (dialog) => {
  faults.push(`dialog: ${dialog.message()}`);
  void dialog.dismiss();
});
context.on("request", (request) => {
  if (!/^(data|blob):/.test(request.url()) && new URL(request.url()).origin !== origin) {
    faults.push(`request to ${request.url()}`);
  }
});

// The findings of axe, with the elements.
async function findings() {
  await page.evaluate(axe);
  const { violations } = await page.evaluate(() => globalThis.axe.run());
  return violations.map(({ id, impact, nodes }) => `${impact} ${id}: ${nodes.map(({ html }) => html).join(" | ")}`);
}

// What a download contains, which begins with `act`.
async function saved(act) {
  const [download] = await Promise.all([page.waitForEvent("download"), act()]);
  return { name: download.suggestedFilename(), text: readFileSync(await download.path(), "utf8") };
}

const AsyncFunction = Object.getPrototypeOf(async () => {}).constructor;
for await (const line of createInterface({ input: process.stdin })) {
  let answer;
  try {
    const run = new AsyncFunction("page", "faults", "findings", "saved", JSON.parse(line));
    answer = { value: (await run(page, faults, findings, saved)) ?? null };
  } catch (error) {
    answer = { error: String(error) };
  }
  process.stdout.write(`${JSON.stringify(answer)}\n`);
}
await browser.close();
