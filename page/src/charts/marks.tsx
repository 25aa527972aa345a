// The marks of charts, in pixels.
import { utcTime } from "../format";
import { roundValues, type Scale } from "./scale";

interface AxisProps {
  title: string;
  ticks: { at: number; text: string }[];
}

// The axis below a drawing. y: of its line; from, to: its ends.
export function XAxis({ title, ticks, y, from, to }: AxisProps & { y: number; from: number; to: number }) {
  return <g class="axis">
    <line x1={from} x2={to} y1={y} y2={y} />
    {ticks.map(({ at, text }) => <g key={text + at}>
      <line x1={at} x2={at} y1={y} y2={y + 4} />
      <text x={at} y={y + 16} text-anchor="middle">{text}</text>
    </g>)}
    {title !== "" && <text class="title" x={(from + to) / 2} y={y + 32} text-anchor="middle">{title}</text>}
  </g>;
}

// The axis left of a drawing, with lines across it. The title is above, so that it is read upright.
export function YAxis({ title, ticks, x, to, top }: AxisProps & { x: number; to: number; top: number }) {
  return <g class="axis">
    {ticks.map(({ at, text }) => <g key={text + at}>
      <line class="grid" x1={x} x2={to} y1={at} y2={at} />
      <text x={x - 6} y={at + 4} text-anchor="end">{text}</text>
    </g>)}
    <text class="title" x={0} y={top - 9} text-anchor="start">{title}</text>
  </g>;
}

export function ticksOf(scale: Scale, number: number, format: (value: number) => string) {
  return roundValues(scale.domain, number).map((value) => ({ at: scale(value), text: format(value) }));
}

const MINUTE = 60_000;
const DAY = 1440 * MINUTE;
const STEPS = [1, 2, 5, 10, 15, 30, 60, 120, 180, 360, 720].map((minutes) => minutes * MINUTE)
  .concat([1, 2, 7, 14, 30, 90, 180, 365].map((days) => days * DAY));

// At round times in UTC: the date at midnight, and else the time. scale: of milliseconds.
export function timeTicks(scale: Scale, number: number) {
  const [start, end] = scale.domain;
  const step = STEPS.find((one) => (end - start) / one <= number) ?? STEPS.at(-1)!;
  const midnight = new Date(start);
  midnight.setUTCHours(0, 0, 0, 0);
  const ticks = [];
  for (let time = midnight.getTime(); time <= end; time += step) {
    if (time < start) continue;
    const [day, clock] = utcTime(new Date(time)).split(" ") as [string, string];
    ticks.push({ at: scale(time), text: clock === "00:00" || step >= DAY ? day.slice(5) : clock });
  }
  return ticks;
}

export interface BandPoint {
  x: number;
  lower: number;
  upper: number;
}

type Point = readonly [x: number, y: number];

function pathOf(points: Point[]): string {
  return points.map(([x, y], i) => `${i === 0 ? "M" : "L"}${x.toFixed(2)} ${y.toFixed(2)}`).join("");
}

export function Band({ points, kind }: { points: BandPoint[]; kind: string }) {
  const upper = points.map(({ x, upper: y }): Point => [x, y]);
  const lower = points.map(({ x, lower: y }): Point => [x, y]).reverse();
  return <path class={`band ${kind}`} d={points.length === 0 ? "" : `${pathOf([...upper, ...lower])}Z`} />;
}

// step: the line is level around each point, and changes halfway to the next one.
export function Line({ points, kind, step = false }: { points: Point[]; kind: string; step?: boolean }) {
  const corners = step ? points.flatMap(([x, y], i): Point[] => {
    const [before, after] = [points[i - 1]?.[0] ?? x, points[i + 1]?.[0] ?? x];
    return [[(before + x) / 2, y], [(x + after) / 2, y]];
  }) : points;
  return <path class={`line ${kind}`} d={pathOf(corners)} />;
}

export interface Bar {
  from: number;
  to: number;
  top: number;
  bottom: number;
  kind: string;
}

export function Bars({ bars }: { bars: Bar[] }) {
  return <g>{bars.map(({ from, to, top, bottom, kind }, i) =>
    <rect key={i} class={`bar ${kind}`} x={from} y={top} width={Math.max(0.5, to - from)} height={Math.max(0, bottom - top)} />)}
  </g>;
}

export interface Dot {
  x: number;
  y: number;
  lower: number;
  upper: number;
  kind: string;
}

// Estimates with their intervals, which are vertical.
export function Dots({ dots, size }: { dots: Dot[]; size: number }) {
  return <g>{dots.map(({ x, y, lower, upper, kind }, i) => <g key={i} class={`dot ${kind}`}>
    <line x1={x} x2={x} y1={lower} y2={upper} />
    {kind === "off" || kind === "chosen" ? <path d={`M${x} ${y - size - 1}l${size + 1} ${size + 1}l${-size - 1} ${size + 1}l${-size - 1} ${-size - 1}Z`} />
      : <circle cx={x} cy={y} r={size} />}
  </g>)}</g>;
}

export interface Cell extends Bar {
  // Of the colour, in [0, 1].
  strength: number;
  text: string;
  // Shown on hover.
  title: string;
}

// The cells of a heat map.
export function Cells({ cells }: { cells: Cell[] }) {
  return <g>{cells.map(({ from, to, top, bottom, kind, strength, text, title }, i) => <g key={i} class="cell">
    <title>{title}</title>
    <rect class={`bar ${kind}`} x={from} y={top} width={Math.max(0.5, to - from)} height={bottom - top} fill-opacity={strength.toFixed(2)} />
    {text !== "" && <text x={(from + to) / 2} y={(top + bottom) / 2 + 4} text-anchor="middle">{text}</text>}
  </g>)}</g>;
}
