// What the server says about a model, line by line.
import type { Calibration, Schemas } from "../api";
import { plain } from "../format";

type Reading = Schemas["Reading"];

const LINES: [keyof Reading, string][] = [
  ["howBad", "How bad"],
  ["now", "Now"],
  ["where", "Where"],
  ["changed", "Changed"],
  ["decision", "Decision"],
  ["against", "Against"],
  ["repair", "Repair"],
  ["certain", "Certain"],
  ["data", "Data"],
  ["warning", "Warning"],
  ["next", "Next"],
];

export function Sentences({ calibration }: { calibration: Calibration }) {
  const reading = calibration.reading ?? {};
  return <dl class="sentences">{LINES.map(([field, title]) => {
    const line = reading[field] as Schemas["Reading.Line"] | undefined;
    if (line?.text === undefined || line.text === "") return null;
    return <div key={field} class={`line-${field}`}><dt>{title}</dt><dd>{plain(line.text)}</dd></div>;
  })}</dl>;
}
