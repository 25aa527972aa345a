// Where the numbers come from, and the answer as a file.
import { evaluateBody, pathOf, SEED_BODY } from "../api";
import { save } from "../export";
import { count, decimal, int, shortName } from "../format";
import { Section, Time } from "../parts";
import type { ViewProps } from "./view";

// A word of a POSIX shell.
function quoted(word: string): string {
  return /^[\w@%+=:,./-]+$/.test(word) ? word : `'${word.replaceAll("'", "'\\''")}'`;
}

// The calls that give the answers which the page shows, with their bodies.
function callsOf({ calibration, evaluation, other, estimate, recalibration }: ViewProps): string[] {
  const path = pathOf(calibration.model ?? "");
  const get = (address: string) => `curl ${quoted(address)}`;
  const post = (method: string, body: unknown) =>
    `curl ${quoted(`${location.origin}${path}:${method}`)} -H 'Content-Type: application/json' -d ${quoted(JSON.stringify(body))}`;
  const classes = (evaluation.value?.reliability ?? []).flatMap(({ classIndex }) => classIndex ?? []);
  return [
    get(`${location.origin}${path}/calibration`),
    `calibctl show ${quoted(shortName(calibration.model ?? ""))} --output json`,
    ...(evaluation.value ? [post("evaluate", evaluateBody(classes))] : []),
    ...(other.value ? [post("compare", { baseline: other.value.model })] : []),
    ...(estimate.value ? [post("estimate", SEED_BODY)] : []),
    ...(recalibration.value ? [post("recalibrate", {})] : []),
  ];
}

export function SourceView(props: ViewProps) {
  const { calibration, model, ask } = props;
  const name = calibration.model ?? "";
  const evidence = calibration.watch?.evidence;
  const { provenance } = calibration;
  const facts: [string, string][] = [
    ["created", model?.createTime ?? ""],
    ["rows of the watch", count(int(calibration.watch?.observations))],
    ["log10 e-value, highest, threshold", evidence === undefined ? "" : [evidence.log10EValue, evidence.maxLog10EValue, evidence.threshold].map(decimal).join(", ")],
    ["kernel", provenance?.kernel === undefined ? "" : Object.keys(provenance.kernel)[0] ?? ""],
    ["bandwidth of the kernel", decimal(provenance?.bandwidth)],
    ["calibd", provenance?.version ?? ""],
  ];
  return <Section title="Source" id="source">
    {ask !== undefined && <>
      <p>The same answers:</p>
      <pre tabIndex={0}>{callsOf(props).join("\n")}</pre>
    </>}
    <dl class="facts">{facts.filter(([, value]) => value !== "").map(([title, value]) => <div key={title}>
      <dt>{title}</dt><dd>{title === "created" ? <Time time={value} /> : value}</dd>
    </div>)}</dl>
    {ask !== undefined && <button type="button" onClick={() => save(`${name}.json`, "application/json", JSON.stringify(calibration, null, 2))}>
      JSON of this answer
    </button>}
  </Section>;
}
