// Where the numbers come from, and the answer as a file.
import { type Calibration, type Model, pathOf } from "../api";
import { save } from "../export";
import { count, decimal, int, shortName } from "../format";
import { Section, Time } from "../parts";

// A word of a POSIX shell.
function quoted(word: string): string {
  return /^[\w@%+=:,./-]+$/.test(word) ? word : `'${word.replaceAll("'", "'\\''")}'`;
}

export function SourceView({ calibration, model }: { calibration: Calibration; model: Model | undefined }) {
  const name = calibration.model ?? "";
  const address = `${location.origin}${pathOf(name)}/calibration`;
  const evidence = calibration.watch?.evidence;
  const { provenance } = calibration;
  const facts: [string, string][] = [
    ["rows since", model?.createTime ?? ""],
    ["rows of the watch", count(int(calibration.watch?.observations))],
    ["rows in the window", count(int(calibration.windowObservations))],
    ["log10 e-value, highest, threshold", evidence === undefined ? "" : [evidence.log10EValue, evidence.maxLog10EValue, evidence.threshold].map(decimal).join(", ")],
    ["bandwidth of the kernel", decimal(provenance?.bandwidth)],
    ["calibd", provenance?.version ?? ""],
  ];
  return <Section title="Source" id="source">
    <p>The same answer:</p>
    <pre tabIndex={0}>{`curl ${quoted(address)}\ncalibctl show ${quoted(shortName(name))} --output json`}</pre>
    <dl class="facts">{facts.filter(([, value]) => value !== "").map(([title, value]) => <div key={title}>
      <dt>{title}</dt><dd>{title === "rows since" ? <Time time={value} /> : value}</dd>
    </div>)}</dl>
    <button type="button" onClick={() => save(`${name}.json`, "application/json", JSON.stringify(calibration, null, 2))}>
      JSON of this answer
    </button>
  </Section>;
}
