// How often an event happened, by how probable it was said to be.
import { scaleLinear } from "../charts/scale";
import { useState } from "preact/hooks";
import { type Calibration, type Diagram, getDiagrams, type Model } from "../api";
import { Chart, type Size } from "../charts/chart";
import { Band, Bars, Dots, Line, ticksOf, XAxis, YAxis } from "../charts/marks";
import { count, int, percent } from "../format";
import { useRead } from "../live";
import type { Table } from "../parts";
import { Section } from "../parts";

const LEFT = 36;
const TOP = 26;
const RIGHT = 12;
const HISTOGRAM = 40;
const BOTTOM = 40;
const MOST = 290;
// Classes that the choice lists.
const MOST_CLASSES = 100;

type Kind = "corp" | "bins";

function plotWidth(width: number): number {
  return Math.min(MOST, width) - LEFT - RIGHT;
}

function Drawing({ diagram, kind, size }: { diagram: Diagram; kind: Kind; size: Size }) {
  const side = plotWidth(size.width);
  const x = scaleLinear([0, 1], [LEFT, LEFT + side]);
  const y = scaleLinear([0, 1], [TOP + side, TOP]);
  const bins = diagram.bins ?? [];
  const most = Math.max(1, ...bins.map((bin) => int(bin.n)));
  const ground = TOP + side + 6 + HISTOGRAM;
  const corp: [number, number][] = (diagram.corpBlocks ?? []).flatMap((block) => {
    const level = y(block.recalibrated ?? 0);
    return [[x(block.lower ?? 0), level], [x(block.upper ?? 0), level]] as [number, number][];
  });
  return <>
    <YAxis title="observed frequency" ticks={ticksOf(y, 5, String)} x={LEFT} to={LEFT + side} top={TOP} />
    {kind === "corp" && <Band kind="expected" points={(diagram.corpBand ?? []).map(({ prediction, consistency }) =>
      ({ x: x(prediction ?? 0), lower: y(consistency?.lower ?? 0), upper: y(consistency?.upper ?? 0) }))} />}
    <line class="diagonal" x1={x(0)} y1={y(0)} x2={x(1)} y2={y(1)} />
    {kind === "corp" ? <Line kind="main" points={corp} />
      : <Dots size={4} dots={bins.map((bin) => ({
        x: x(bin.meanPrediction ?? 0), y: y(bin.frequency ?? 0), kind: bin.outside === true ? "off" : "",
        lower: y(bin.confidence?.lower ?? bin.frequency ?? 0), upper: y(bin.confidence?.upper ?? bin.frequency ?? 0),
      }))} />}
    <Bars bars={bins.map((bin) => ({
      from: x(bin.lower ?? 0) + 0.5, to: x(bin.upper ?? 0) - 0.5, kind: "rows",
      top: ground - Math.max(1, (HISTOGRAM * int(bin.n)) / most), bottom: ground,
    }))} />
    <XAxis title="stated probability, and rows below" ticks={ticksOf(x, 5, String)} y={ground} from={LEFT} to={LEFT + side} />
  </>;
}

function tableOf(diagram: Diagram): Table {
  return {
    columns: ["from", "to", "rows", "mean stated", "observed", "interval from", "interval to", "if calibrated from",
      "if calibrated to", "outside"],
    rows: (diagram.bins ?? []).map((bin) => [bin.lower ?? 0, bin.upper ?? 0, int(bin.n), bin.meanPrediction ?? 0,
      bin.frequency ?? 0, bin.confidence?.lower ?? "", bin.confidence?.upper ?? "", bin.consistency?.lower ?? "",
      bin.consistency?.upper ?? "", bin.outside === true ? "yes" : ""]),
  };
}

// The running bins, where no diagram is computed. They have no intervals.
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

export function DiagramView({ calibration, model }: { calibration: Calibration; model: Model | undefined }) {
  const name = calibration.model ?? "";
  const [kind, setKind] = useState<Kind>("corp");
  const [event, setEvent] = useState(-1);
  // The server refuses to compute it while the first rows are collected.
  const isReady = calibration.insufficientData === undefined;
  const read = useRead(async () => (isReady ? getDiagrams(name, event < 0 ? [] : [event]) : []), `${name} ${event} ${isReady}`);
  const computed = read.value?.find((one) => (one.classIndex ?? -1) === event);
  const diagram = computed ?? (event < 0 && (read.error !== "" || !isReady) ? runningDiagram(calibration) : undefined);
  const names = model?.classes?.names ?? [];
  const classes = Math.min(MOST_CLASSES, Number(model?.classes?.count ?? 0));
  const rows = (diagram?.bins ?? []).reduce((sum, bin) => sum + int(bin.n), 0);
  const shown = computed === undefined ? "bins" : kind;
  const corp = computed?.corp;
  return <Section title="Reliability" id="reliability">
    {diagram === undefined ? <p class="empty">{read.error === "" ? "computing…" : read.error}</p>
      : <Chart title="Reliability diagram" file={`${name}-reliability`} table={() => tableOf(diagram)}
        height={(width) => TOP + plotWidth(width) + 6 + HISTOGRAM + BOTTOM}
        controls={<>
          <label>of <select value={event} onChange={({ currentTarget }) => setEvent(Number(currentTarget.value))}>
            <option value={-1}>top label</option>
            {Array.from({ length: classes }, (_, k) => <option key={k} value={k}>{names[k] ?? `class ${k}`}</option>)}
          </select></label>
          <label>as <select value={shown} onChange={({ currentTarget }) => setKind(currentTarget.value as Kind)}>
            {computed !== undefined && <option value="corp">CORP</option>}
            <option value="bins">bins</option>
          </select></label>
          <button type="button" onClick={read.again}>Compute again</button>
        </>}
        note={<>
          {computed === undefined ? `All rows, without intervals. ${read.error}`
            : shown === "corp" ? `Newest ${count(rows)} rows. Grey: where the line of a calibrated model lies with ${percent(computed.bandLevel)} at each place.`
              : `Newest ${count(rows)} rows. Clopper-Pearson intervals, ${percent(computed.bandLevel)} each; ◆ is outside of what a calibrated model shows.`}
          {shown === "corp" && corp !== undefined && ` Brier score ${(corp.score ?? 0).toFixed(4)} = miscalibration ${(corp.miscalibration ?? 0).toFixed(4)} − discrimination ${(corp.discrimination ?? 0).toFixed(4)} + uncertainty ${(corp.uncertainty ?? 0).toFixed(4)}.`}
        </>}>
        {(size) => <Drawing diagram={diagram} kind={shown} size={size} />}
      </Chart>}
  </Section>;
}
