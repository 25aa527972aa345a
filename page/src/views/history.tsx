// The error, the evidence and the rows over time, with what happened meanwhile.
import { ceilingOf, scaleLinear } from "../charts/scale";
import { useState } from "preact/hooks";
import { type Bucket, type Calibration, type Schemas, SPANS } from "../api";
import { Chart, type Size } from "../charts/chart";
import { rangeKind } from "../charts/interval";
import { Bars, Line, ticksOf, timeTicks, XAxis, YAxis } from "../charts/marks";
import { decimal, int, points } from "../format";
import { Section, type Table } from "../parts";
import type { ViewProps } from "./view";

const LEFT = 40;
const RIGHT = 18;
// With a line for the marks of alarms below the title.
const TOP = 38;
const PANELS = { error: 130, evidence: 66, rows: 40 };
const GAP = 26;
const BOTTOM = 40;
const HEIGHT = TOP + PANELS.error + GAP + PANELS.evidence + GAP + PANELS.rows + BOTTOM;

interface Mark {
  time: number;
  kind: "alarm" | "acknowledged" | "update";
  text: string;
}

function marksOf(calibration: Calibration, updates: Schemas["ModelUpdate"][]): Mark[] {
  const marks: Mark[] = [];
  for (const { kind, id, raiseTime, acknowledgeTime, note } of calibration.alarms ?? []) {
    if (raiseTime !== undefined) marks.push({ time: Date.parse(raiseTime), kind: "alarm", text: `alarm ${id}, ${kind}` });
    if (acknowledgeTime !== undefined) {
      marks.push({ time: Date.parse(acknowledgeTime), kind: "acknowledged", text: `alarm ${id} acknowledged. ${note}` });
    }
  }
  for (const { time, changes } of updates) {
    if (time === undefined) continue;
    marks.push({ time: Date.parse(time), kind: "update", text: (changes ?? []).map(({ path }) => path).join(", ") });
  }
  return marks;
}

// The bucket in which an observation was counted, by the numbers of rows in the buckets until now.
function bucketOf(observation: number, total: number, buckets: Bucket[]): Bucket | undefined {
  let last = total;
  return buckets.findLast((bucket) => observation > (last -= int(bucket.observations)));
}

interface DrawingProps {
  calibration: Calibration;
  buckets: Bucket[];
  // Of time, in milliseconds.
  ends: [number, number];
  marks: Mark[];
  class1: boolean;
  size: Size;
}

function Drawing({ calibration, buckets, ends, marks, class1, size }: DrawingProps) {
  const right = size.width - RIGHT;
  const x = scaleLinear(ends, [LEFT, right]);
  const errorOf = (bucket: Bucket) => (class1 ? bucket.class1Error : bucket.error);
  const limit = calibration.error?.limit;
  const measured = buckets.filter((bucket) => errorOf(bucket) !== undefined);
  const estimates = measured.map((bucket) => 1.1 * (errorOf(bucket)?.estimate ?? 0));
  const most = Math.min(1, ceilingOf(measured.map((bucket) => errorOf(bucket)?.upper ?? 0), Math.max(2.5 * (limit ?? 0.02), ...estimates)));
  const errorBottom = TOP + PANELS.error;
  const y = scaleLinear([0, most], [errorBottom, TOP]);
  const clip = (error: number) => y(Math.min(most, error));
  const spanOf = (bucket: Bucket) => ({ from: x(Date.parse(bucket.startTime ?? "")) + 0.5, to: x(Date.parse(bucket.endTime ?? "")) - 0.5 });

  const evidenceTop = errorBottom + GAP;
  const evidenceBottom = evidenceTop + PANELS.evidence;
  const evidence = buckets.filter((bucket) => bucket.log10EValue !== undefined);
  const values = evidence.flatMap((bucket) => [bucket.log10EValue ?? 0, bucket.maxLog10EValue ?? 0]);
  const threshold = calibration.watch?.evidence?.threshold;
  const e = scaleLinear([Math.min(0, ...values), Math.max(2 * (threshold ?? 1.3), ...values)], [evidenceBottom, evidenceTop]);
  const middle = (bucket: Bucket) => (spanOf(bucket).from + spanOf(bucket).to) / 2;

  const rowsTop = evidenceBottom + GAP;
  const rowsBottom = rowsTop + PANELS.rows;
  const n = scaleLinear([0, Math.max(1, ...buckets.map((bucket) => int(bucket.observations) + int(bucket.missingLabels)))], [rowsBottom, rowsTop]);

  const total = int(calibration.observations);
  const change = calibration.error?.change;
  const from = change && bucketOf(int(change.fromObservation), total, buckets);
  const to = change && bucketOf(int(change.toObservation), total, buckets);
  return <>
    {from !== undefined && to !== undefined && <g class="change">
      <title>the change</title>
      <rect x={spanOf(from).from} y={TOP} width={spanOf(to).to - spanOf(from).from} height={rowsBottom - TOP} />
    </g>}
    <YAxis title={`error (points)${limit === undefined ? "" : `; dashed: limit ${points(limit)}`}`} ticks={ticksOf(y, 4, points)} x={LEFT} to={right} top={TOP - 12} />
    <Bars bars={measured.map((bucket) => {
      const error = errorOf(bucket)!;
      return { ...spanOf(bucket), top: clip(error.upper ?? 0), bottom: clip(error.lower ?? 0),
        kind: `range ${rangeKind(error, limit)}` };
    })} />
    {measured.filter((bucket) => (errorOf(bucket)?.lower ?? 0) > 0).map((bucket) => {
      const { from: left, to: far } = spanOf(bucket);
      const level = clip(errorOf(bucket)?.estimate ?? 0);
      return <line key={bucket.startTime} class="estimate" x1={left} x2={far} y1={level} y2={level} />;
    })}
    {limit !== undefined && <line class="limit" x1={LEFT} x2={right} y1={y(limit)} y2={y(limit)} />}
    {marks.map((mark, i) => {
      const at = x(mark.time);
      // Marks that lie on each other have their number.
      const near = marks.filter(({ kind, time }) => kind === mark.kind && Math.abs(x(time) - at) < 8);
      return <g key={i} class={`event ${mark.kind}`}>
        <title>{mark.text}</title>
        <line x1={at} x2={at} y1={TOP - 4} y2={rowsBottom} />
        {mark.kind === "alarm" ? <path d={`M${at} ${TOP - 9}l5 8h-10Z`} /> : <circle cx={at} cy={TOP - 4} r={4} />}
        {near.length > 1 && near[0] === mark && <text x={at + 7} y={TOP - 1}>{near.length}</text>}
      </g>;
    })}

    <YAxis title={`evidence (log10 e-value)${threshold === undefined ? "" : `; dashed: alarm at ${decimal(threshold)}`}`} ticks={ticksOf(e, 3, decimal)} x={LEFT} to={right} top={evidenceTop} />
    <Line kind="highest" step points={evidence.map((bucket) => [middle(bucket), e(bucket.maxLog10EValue ?? 0)])} />
    <Line kind="main" step points={evidence.map((bucket) => [middle(bucket), e(bucket.log10EValue ?? 0)])} />
    {threshold !== undefined && <line class="limit" x1={LEFT} x2={right} y1={e(threshold)} y2={e(threshold)} />}

    <YAxis title="rows, and missing labels above" ticks={ticksOf(n, 2, String)} x={LEFT} to={right} top={rowsTop} />
    <Bars bars={buckets.map((bucket) => ({ ...spanOf(bucket), top: n(int(bucket.observations)), bottom: rowsBottom, kind: "rows" }))} />
    <Bars bars={buckets.filter((bucket) => int(bucket.missingLabels) > 0).map((bucket) => ({ ...spanOf(bucket),
      top: n(int(bucket.observations) + int(bucket.missingLabels)), bottom: n(int(bucket.observations)), kind: "missing" }))} />
    <XAxis title="time (UTC)" ticks={timeTicks(x, size.width < 500 ? 4 : 7)} y={rowsBottom} from={LEFT} to={right} />
  </>;
}

function tableOf(buckets: Bucket[], class1: boolean): Table {
  return {
    columns: ["from (UTC)", "to (UTC)", "rows", "missing labels", "error", "error from", "error to", "log10 e-value",
      "highest log10 e-value"],
    rows: buckets.map((bucket) => {
      const error = class1 ? bucket.class1Error : bucket.error;
      return [bucket.startTime ?? "", bucket.endTime ?? "", int(bucket.observations), int(bucket.missingLabels),
        error?.estimate ?? "", error?.lower ?? "", error?.upper ?? "", bucket.log10EValue ?? "", bucket.maxLog10EValue ?? ""];
    }),
  };
}

export function HistoryView({ calibration, history: { value, error }, chooseSpan }: ViewProps) {
  const name = calibration.model ?? "";
  const [class1, setClass1] = useState(false);
  const buckets = value?.buckets ?? [];
  const hasClass1 = buckets.some((bucket) => bucket.class1Error !== undefined);
  const className = calibration.error?.sinceStart?.class1Name;
  const ends: [number, number] = [Date.parse(buckets[0]?.startTime ?? ""), Date.parse(buckets.at(-1)?.endTime ?? "")];
  const marks = marksOf(calibration, value?.updates ?? []).filter(({ time }) => time >= ends[0] && time <= ends[1]);
  return <Section title="Over time" id="history">
    {buckets.length === 0 ? <p class="empty">{error !== "" ? error : value === undefined ? "reading…" : "no rows in this time"}</p>
      : <Chart title="Error, evidence and rows over time" file={`${name}-history`} height={() => HEIGHT}
        table={() => tableOf(buckets, class1)}
        controls={<>
          {hasClass1 && <label>of <select value={class1 ? 1 : 0} onChange={({ currentTarget }) => setClass1(currentTarget.value === "1")}>
            <option value={0}>top label</option>
            <option value={1}>{className === undefined || className === "" ? "class 1" : className}</option>
          </select></label>}
          <label>span <select value={value?.span ?? 0} onChange={({ currentTarget }) => chooseSpan(Number(currentTarget.value))}>
            {SPANS.map(({ title }, i) => <option key={title} value={i}>{title}</option>)}
          </select></label>
        </>}
        note="Bars: the interval of the error, 95 % for each span by itself; orange: all of it is over the limit; pale: not known. ▲ alarm, ● acknowledgement or update; shaded: spans of the dated change.">
        {(size) => <Drawing calibration={calibration} buckets={buckets} ends={ends} marks={marks}
          class1={class1 && hasClass1} size={size} />}
      </Chart>}
  </Section>;
}
