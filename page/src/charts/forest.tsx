// Estimates with their intervals, one below the other, on one axis.
import { plain } from "../format";
import { Bars, type Dot, Dots, ticksOf, XAxis } from "./marks";
import { scaleLinear } from "./scale";

const ROW = 26;
const TOP = 8;
const BOTTOM = 40;
const RIGHT = 24;

export interface ForestRow {
  name: string;
  // Undefined without a dot.
  value: number | undefined;
  lower: number;
  upper: number;
  kind: string;
  // Where a calibrated model lies.
  expected?: readonly [number, number] | undefined;
}

export function forestHeight(rows: ForestRow[]): number {
  return TOP + rows.length * ROW + BOTTOM;
}

export function Forest({ rows, title, width, format, limit }: {
  rows: ForestRow[];
  title: string;
  width: number;
  format: (value: number) => string;
  limit?: number | undefined;
}) {
  const letters = Math.max(...rows.map(({ name }) => name.length));
  const left = Math.min(0.42 * width, 12 + 6.6 * letters);
  const values = rows.flatMap(({ value, lower, upper, expected }) => [value ?? lower, lower, upper, ...(expected ?? [])]);
  const x = scaleLinear([Math.min(0, ...values), Math.max(1.5 * (limit ?? 0), ...values) * 1.05 || 1], [left, width - RIGHT]);
  const bottom = TOP + rows.length * ROW;
  const middle = (i: number) => TOP + (i + 0.5) * ROW;
  const dots = rows.flatMap(({ value, kind }, i): Dot[] => value === undefined ? []
    : [{ x: x(value), y: middle(i), lower: middle(i), upper: middle(i), kind }]);
  return <>
    {rows.map(({ name, kind }, i) => <text key={i} class={kind === "off" ? "name" : "row"} x={left - 10} y={middle(i) + 4} text-anchor="end">
      {plain(name).slice(0, Math.floor(left / 6.6))}</text>)}
    <Bars bars={rows.flatMap(({ expected }, i) => expected === undefined ? []
      : [{ from: x(expected[0]), to: x(expected[1]), top: middle(i) - 9, bottom: middle(i) + 9, kind: "calm" }])} />
    <Bars bars={rows.flatMap(({ lower, upper, kind }, i) => lower === upper ? []
      : [{ from: x(lower), to: x(upper), top: middle(i) - 4, bottom: middle(i) + 4, kind }])} />
    <Dots size={5} dots={dots} />
    {limit !== undefined && <line class="limit" x1={x(limit)} x2={x(limit)} y1={0} y2={bottom} />}
    <XAxis title={title} ticks={ticksOf(x, width < 500 ? 4 : 6, format)} y={bottom} from={left} to={width - RIGHT} />
  </>;
}
