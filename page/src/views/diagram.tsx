// How often an event happened, by how probable it was said to be.
import { type Scale, scaleLinear } from "../charts/scale";
import type { ComponentChildren } from "preact";
import { useState } from "preact/hooks";
import type { Calibration, Diagram, Evaluation, Model } from "../api";
import { Chart, type Size } from "../charts/chart";
import { Band, Bars, Dots, Line, ticksOf, XAxis, YAxis } from "../charts/marks";
import { int, percent, plain, shortName } from "../format";
import { Compute, rowsText, Section, type Table } from "../parts";
import { OtherChoice } from "./other_choice";
import type { ViewProps } from "./view";

const LEFT = 36;
const TOP = 26;
const RIGHT = 12;
const HISTOGRAM = 40;
const BOTTOM = 40;
const MOST = 290;
// Classes that the choice lists.
const MOST_CLASSES = 100;

// The last one has all rows instead of the newest ones.
type Kind = "corp" | "bins" | "all";

export function classNameOf(model: Model | undefined, index: number): string {
  return model?.classes?.names?.[index] ?? `class ${index}`;
}

function plotWidth(width: number): number {
  return Math.min(MOST, width) - LEFT - RIGHT;
}

export function squareHeight(width: number): number {
  return TOP + plotWidth(width) + BOTTOM;
}

// The axes of both probabilities, the diagonal, and what is drawn between them. axis: the title of the one below; ground:
// where it is, if there is something above it.
export function Square({ width, axis, ground, children }: {
  width: number;
  axis: string;
  ground?: number;
  children: (x: Scale, y: Scale) => ComponentChildren;
}) {
  const side = plotWidth(width);
  const x = scaleLinear([0, 1], [LEFT, LEFT + side]);
  const y = scaleLinear([0, 1], [TOP + side, TOP]);
  return <>
    <YAxis title="observed frequency" ticks={ticksOf(y, 5, String)} x={LEFT} to={x(1)} top={TOP} />
    <line class="diagonal" x1={x(0)} y1={y(0)} x2={x(1)} y2={y(1)} />
    {children(x, y)}
    <XAxis title={axis} ticks={ticksOf(x, 5, String)} y={ground ?? y(0)} from={LEFT} to={x(1)} />
  </>;
}

// The blocks of CORP as the corners of steps.
export function stepsOf(blocks: Diagram["corpBlocks"], x: Scale, y: Scale): [number, number][] {
  return (blocks ?? []).flatMap((block) => {
    const level = y(block.recalibrated ?? 0);
    return [[x(block.lower ?? 0), level], [x(block.upper ?? 0), level]] as [number, number][];
  });
}

// Whose line is whose, in the corner that lines leave empty.
export function Legend({ names }: { names: { kind: string; name: string }[] }) {
  return <g>{names.map(({ kind, name }, i) => <g key={kind}>
    <line class={`line ${kind}`} x1={LEFT + 8} x2={LEFT + 30} y1={TOP + 14 + 16 * i} y2={TOP + 14 + 16 * i} />
    <text x={LEFT + 36} y={TOP + 18 + 16 * i}>{plain(name).slice(0, 26)}</text>
  </g>)}</g>;
}

export interface DrawingProps {
  diagram: Diagram;
  kind: Kind;
  // Of another model, with its name.
  other: { name: string; diagram: Diagram } | undefined;
  name: string;
  size: Size;
}

export function Drawing({ diagram, kind, other, name, size }: DrawingProps) {
  const bins = diagram.bins ?? [];
  const most = Math.max(1, ...bins.map((bin) => int(bin.n)));
  const ground = TOP + plotWidth(size.width) + 6 + HISTOGRAM;
  return <Square width={size.width} axis="stated probability, and rows below" ground={ground}>{(x, y) => {
    const dotsOf = (one: Diagram, kindOf: (isOff: boolean) => string) => (one.bins ?? []).map((bin) => ({
      x: x(bin.meanPrediction ?? 0), y: y(bin.frequency ?? 0), kind: kindOf(bin.outside === true),
      lower: y(bin.confidence?.lower ?? bin.frequency ?? 0), upper: y(bin.confidence?.upper ?? bin.frequency ?? 0),
    }));
    return <>
      {kind === "corp" ? <>
        <Band kind="expected" points={(diagram.corpBand ?? []).map(({ prediction, consistency }) =>
          ({ x: x(prediction ?? 0), lower: y(consistency?.lower ?? 0), upper: y(consistency?.upper ?? 0) }))} />
        {other !== undefined && <Line kind="other" points={stepsOf(other.diagram.corpBlocks, x, y)} />}
        <Line kind="main" points={stepsOf(diagram.corpBlocks, x, y)} />
      </> : <>
        {other !== undefined && <Dots size={3} dots={dotsOf(other.diagram, () => "other")} />}
        <Dots size={4} dots={dotsOf(diagram, (isOff) => (isOff ? "off" : ""))} />
      </>}
      {other !== undefined && <Legend names={[{ kind: "main", name: shortName(name) }, { kind: "other", name: shortName(other.name) }]} />}
      <Bars bars={bins.map((bin) => ({
        from: x(bin.lower ?? 0) + 0.5, to: x(bin.upper ?? 0) - 0.5, kind: "rows",
        top: ground - Math.max(1, (HISTOGRAM * int(bin.n)) / most), bottom: ground,
      }))} />
    </>;
  }}</Square>;
}

export function tableOf(diagram: Diagram): Table {
  return {
    columns: ["from", "to", "rows", "mean stated", "observed", "interval from", "interval to", "if calibrated from",
      "if calibrated to", "outside"],
    rows: (diagram.bins ?? []).map((bin) => [bin.lower ?? 0, bin.upper ?? 0, int(bin.n), bin.meanPrediction ?? 0,
      bin.frequency ?? 0, bin.confidence?.lower ?? "", bin.confidence?.upper ?? "", bin.consistency?.lower ?? "",
      bin.consistency?.upper ?? "", bin.outside === true ? "yes" : ""]),
  };
}

// The running bins of all rows. They have no intervals.
function runningDiagram(calibration: Calibration): Diagram | undefined {
  const bins = calibration.scores?.bins;
  if (bins === undefined || bins.length === 0) return undefined;
  return {
    bins: bins.flatMap((bin, i) => int(bin.observations) === 0 ? [] : [{
      lower: i / bins.length, upper: (i + 1) / bins.length, n: bin.observations ?? "0",
      meanPrediction: bin.meanConfidence ?? 0, frequency: bin.accuracy ?? 0,
    }]),
  };
}

// classIndex: -1 for the top label.
function diagramOf(evaluation: Evaluation | undefined, classIndex: number): Diagram | undefined {
  return evaluation?.reliability?.find((one) => (one.classIndex ?? -1) === classIndex);
}

export function diagramHeight(width: number): number {
  return squareHeight(width) + 6 + HISTOGRAM;
}

export function binsNote({ bandLevel }: Diagram): string {
  return `Clopper-Pearson intervals, ${percent(bandLevel)} each; ◆ is outside of what a calibrated model shows.`;
}

export function DiagramView({ calibration, model, diagrams, other, ask }: ViewProps) {
  const name = calibration.model ?? "";
  const [kind, setKind] = useState<Kind>("corp");
  const [event, setEvent] = useState(-1);
  if (model?.classes === undefined || int(calibration.observations) === 0) return null;
  const { value } = diagrams;
  const baseline = event < 0 ? calibration.comparison?.baselineReliability : undefined;
  const computed = kind === "all" && baseline !== undefined ? undefined : diagramOf(value, event);
  const diagram = computed ?? (event < 0 ? runningDiagram(calibration) : undefined) ?? {};
  const [otherName, overlay] = computed === undefined ? [calibration.baseline, baseline]
    : [other.value?.model, diagramOf(other.value?.evaluation, event)];
  const classes = Array.from({ length: Math.min(MOST_CLASSES, Number(model.classes.count ?? 0)) }, (_, k) => k)
    .filter((k) => ask !== undefined || diagramOf(value, k) !== undefined);
  const choose = (index: number) => {
    setEvent(index);
    if (index >= 0) ask?.diagrams(index);
  };
  const rows = (diagram?.bins ?? []).reduce((sum, bin) => sum + int(bin.n), 0);
  const shown = computed === undefined ? "all" : kind === "all" ? "corp" : kind;
  const corp = computed?.corp;
  return <Section title="Reliability" id="reliability">
    <Chart title="Reliability diagram" file={`${name}-reliability`} table={() => tableOf(diagram)}
      height={diagramHeight}
      controls={<>
        <label>of <select value={event} onChange={({ currentTarget }) => choose(Number(currentTarget.value))}>
          <option value={-1}>top label</option>
          {classes.map((k) => <option key={k} value={k}>{classNameOf(model, k)}</option>)}
        </select></label>
        <label>as <select value={shown} onChange={({ currentTarget }) => setKind(currentTarget.value as Kind)}>
          {diagramOf(value, event) !== undefined && <><option value="corp">CORP</option><option value="bins">bins</option></>}
          {(computed === undefined || baseline !== undefined) && <option value="all">bins of all rows</option>}
        </select></label>
        {ask !== undefined && <OtherChoice ask={ask} other={other} />}
      </>}
      note={<>
        {computed === undefined ? event < 0 && "All rows."
          : shown === "corp" ? `${rowsText(calibration, rows)}. Grey: where the line of a calibrated model lies with ${percent(computed.bandLevel)} at each place.`
            : `${rowsText(calibration, rows)}. ${binsNote(computed)}`}
        {shown === "corp" && corp !== undefined && ` Brier score of this event ${(corp.score ?? 0).toFixed(4)} = miscalibration ${(corp.miscalibration ?? 0).toFixed(4)} − discrimination ${(corp.discrimination ?? 0).toFixed(4)} + uncertainty ${(corp.uncertainty ?? 0).toFixed(4)}.`}
      </>}>
      {(size) => <Drawing diagram={diagram} kind={shown} name={name} size={size}
        other={overlay && { name: otherName ?? "", diagram: overlay }} />}
    </Chart>
    {diagramOf(value, event) === undefined && ask !== undefined && calibration.insufficientData === undefined &&
      <Compute answer={diagrams} start={() => ask.diagrams()}>Newest rows.</Compute>}
  </Section>;
}
