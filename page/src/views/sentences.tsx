// What the server says about a model, line by line.
import type { Calibration, Schemas } from "../api";
import { plain } from "../format";

type Reading = Schemas["Reading"];

const LINES: (keyof Reading)[] =
  ["howBad", "now", "where", "changed", "decision", "against", "repair", "certain", "data", "warning", "next"];

export function Sentences({ calibration }: { calibration: Calibration }) {
  const reading = calibration.reading ?? {};
  return <dl class="sentences">{LINES.map((field) => {
    const line = reading[field] as Schemas["Reading.Line"] | undefined;
    if (line?.text === undefined || line.text === "") return null;
    return <div key={field} class={`line-${field}`}><dt>{field.replace("B", " b")}</dt><dd>{plain(line.text)}</dd></div>;
  })}</dl>;
}
