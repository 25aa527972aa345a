// How often each label held, by how probable it was said to be on average, or the diagram of one label.
import { useState } from "preact/hooks";
import { Chart } from "../charts/chart";
import { Dots } from "../charts/marks";
import { int, plain } from "../format";
import { Section } from "../parts";
import { binsNote, diagramHeight, Drawing, Square, squareHeight, tableOf } from "./diagram";
import type { ViewProps } from "./view";

export function LabelDiagramView({ calibration, labelDiagram: { value, error }, ask }: ViewProps) {
  const [chosen, setChosen] = useState("");
  const labels = (calibration.labels?.labels ?? []).filter((label) => label.error !== undefined);
  if (labels.length === 0) return null;
  const name = calibration.model ?? "";
  // The server's order: the one that is off by most comes first.
  const over = calibration.labels?.overLimit ?? [];
  const listed = labels.filter(({ reliability }) => ask !== undefined || reliability !== undefined).map((label) => label.name ?? "");
  const choice = [...new Set([...over, ...listed])].filter((label) => listed.includes(label));
  const diagram = [...labels, value].find((label) => label?.name === chosen && label.reliability !== undefined)?.reliability ?? {};
  const isOne = chosen !== "";
  return <Section title="Labels, stated and observed" id="label-diagram">
    <Chart title={isOne ? `Reliability of ${plain(chosen)}` : "Labels: stated and observed"} file={`${name}-labels`}
      height={isOne ? diagramHeight : squareHeight}
      controls={choice.length > 0 && <label>of <select value={chosen} onChange={({ currentTarget }) => {
        setChosen(currentTarget.value);
        ask?.label(currentTarget.value);
      }}>
        <option value="">all labels</option>
        {choice.map((label) => <option key={label} value={label}>{plain(label)}</option>)}
      </select></label>}
      table={() => isOne ? tableOf(diagram) : {
        columns: ["label", "truths", "mean stated", "observed", "observed from", "observed to", "status"],
        rows: labels.map(({ name: label, truths, stated = 0, held, error: off, status }) => [label ?? "", int(truths), stated, held ?? 0,
          stated - (off?.gapUpper ?? 0), stated - (off?.gapLower ?? 0), status ?? ""]),
      }}
      note={!isOne ? "A point for each label, with the interval of its frequency; ◆ is over the limit."
        : diagram.bins === undefined ? error || "reading…" : binsNote(diagram)}>
      {(size) => isOne ? <Drawing diagram={diagram} kind="bins" name={name} size={size} other={undefined} />
        : <Square width={size.width} axis="mean stated probability">{(x, y) => <>
          <Dots size={5} dots={labels.map(({ stated = 0, held = 0, error: off, status }) => ({
            x: x(stated), y: y(held), lower: y(Math.max(0, stated - (off?.gapUpper ?? 0))),
            upper: y(Math.min(1, stated - (off?.gapLower ?? 0))), kind: status === "OVER_LIMIT" ? "off" : "",
          }))} />
          {labels.filter((label) => label.name === over[0]).map(({ name: label = "", stated = 0, held = 0 }) =>
            <text key={label} class="name" x={x(stated) + (stated < 0.6 ? 10 : -10)} y={y(held) + 4}
              text-anchor={stated < 0.6 ? "start" : "end"}>{plain(label).slice(0, 24)}</text>)}
        </>}</Square>}
    </Chart>
  </Section>;
}
