// Estimates with their intervals, one below the other, on one axis.
import { plain } from "../format";
import { Bars, type Dot, Dots, ticksOf, XAxis } from "./marks";
import { scaleLinear } from "./scale";

const ROW = 26;
// Of a row whose name stands above it.
const TALL_ROW = 42;
const TOP = 8;
const BOTTOM = 40;
const RIGHT = 24;
// More than the width of a bold letter, on average.
const LETTER = 7;

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

// Names that leave too little room stand above their rows.
function layoutOf(rows: ForestRow[], width: number) {
  const room = 14 + LETTER * Math.max(...rows.map(({ name }) => name.length));
  return room <= 0.45 * width ? { left: room, row: ROW, above: 0 } : { left: 12, row: TALL_ROW, above: TALL_ROW - ROW };
}

export function forestHeight(rows: ForestRow[], width: number): number {
  return TOP + rows.length * layoutOf(rows, width).row + BOTTOM;
}

export function Forest({ rows, title, width, format, limit }: {
  rows: ForestRow[];
  title: string;
  width: number;
  format: (value: number) => string;
  limit?: number | undefined;
}) {
  const { left, row, above } = layoutOf(rows, width);
  const values = rows.flatMap(({ value, lower, upper, expected }) => [value ?? lower, lower, upper, ...(expected ?? [])]);
  const x = scaleLinear([Math.min(0, ...values), Math.max(1.5 * (limit ?? 0), ...values) * 1.05 || 1], [left, width - RIGHT]);
  const bottom = TOP + rows.length * row;
  // No more ticks than there is room for their texts, because roundValues() may give half as many more.
  const longest = Math.max(...ticksOf(x, 6, format).map(({ text }) => text.length));
  const ticks = ticksOf(x, Math.min(6, (width - RIGHT - left) / (1.5 * LETTER * (longest + 1))), format);
  const middle = (i: number) => TOP + i * row + above + ROW / 2;
  const dots = rows.flatMap(({ value, kind }, i): Dot[] => value === undefined ? []
    : [{ x: x(value), y: middle(i), lower: middle(i), upper: middle(i), kind }]);
  return <>
    {rows.map(({ name, kind }, i) => <text key={i} class={kind === "off" ? "name" : "row"} x={above > 0 ? left : left - 10}
      y={above > 0 ? TOP + i * row + 14 : middle(i) + 4} text-anchor={above > 0 ? "start" : "end"}>
      {plain(name).slice(0, Math.floor((above > 0 ? width : left) / LETTER))}</text>)}
    <Bars bars={rows.flatMap(({ expected }, i) => expected === undefined ? []
      : [{ from: x(expected[0]), to: x(expected[1]), top: middle(i) - 9, bottom: middle(i) + 9, kind: "calm" }])} />
    <Bars bars={rows.flatMap(({ lower, upper, kind }, i) => lower === upper ? []
      : [{ from: x(lower), to: x(upper), top: middle(i) - 4, bottom: middle(i) + 4, kind }])} />
    <Dots size={5} dots={dots} />
    {limit !== undefined && <line class="limit" x1={x(limit)} x2={x(limit)} y1={0} y2={bottom} />}
    <XAxis title={title} ticks={ticks} y={bottom} from={left} to={width - RIGHT} />
  </>;
}
