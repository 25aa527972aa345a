// Where the numbers come from, and the answer as a file.
import type { ComponentChildren } from "preact";
import { diagramBody, evaluateBody, pathOf, SEED_BODY } from "../api";
import { save } from "../export";
import { decimal, shortName } from "../format";
import { Facts, Section, Time } from "../parts";
import type { ViewProps } from "./view";

// A word of a POSIX shell.
function quoted(word: string): string {
  return /^[\w@%+=:,./-]+$/.test(word) ? word : `'${word.replaceAll("'", "'\\''")}'`;
}

// The calls that give the answers which the page shows, with their bodies.
function callsOf({ calibration, diagrams, evaluation, other, estimate, recalibration }: ViewProps): string[] {
  const path = pathOf(calibration.model ?? "");
  const get = (address: string) => `curl ${quoted(address)}`;
  const post = (method: string, body: unknown) =>
    `curl ${quoted(`${location.origin}${path}:${method}`)} -H 'Content-Type: application/json' -d ${quoted(JSON.stringify(body))}`;
  const classesOf = ({ value }: ViewProps["evaluation"]) => (value?.reliability ?? []).flatMap(({ classIndex }) => classIndex ?? []);
  return [
    get(`${location.origin}${path}/calibration`),
    `calibctl show ${quoted(shortName(calibration.model ?? ""))} --output json`,
    ...(diagrams.value ? [post("evaluate", diagramBody(classesOf(diagrams)))] : []),
    ...(evaluation.value ? [post("evaluate", evaluateBody(classesOf(evaluation)))] : []),
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
  const facts: [string, ComponentChildren][] = [
    ["created", model?.createTime === undefined ? "" : <Time time={model.createTime} />],
    ["log10 e-value, highest, threshold", evidence === undefined ? "" : [evidence.log10EValue, evidence.maxLog10EValue, evidence.threshold].map(decimal).join(", ")],
    ["kernel", provenance?.kernel === undefined ? "" : Object.keys(provenance.kernel)[0] ?? ""],
    ["bandwidth", decimal(provenance?.bandwidth)],
    ["calibd", provenance?.version ?? ""],
  ];
  return <Section title="Source" id="source">
    {ask !== undefined && <>
      <p>The same answers:</p>
      <pre tabIndex={0}>{callsOf(props).join("\n")}</pre>
    </>}
    <Facts facts={facts.filter(([, value]) => value !== "")} />
    {ask !== undefined && <button type="button" onClick={() => save(`${name}.json`, "application/json", JSON.stringify(calibration, null, 2))}>
      JSON of this answer
    </button>}
  </Section>;
}
