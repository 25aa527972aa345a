// The interval of a difference from 0, as a line of a table shows it. Left is better.
import type { Schemas } from "../api";

const HEIGHT = 14;

export function DifferenceBar({ difference, width }: { difference: Schemas["ScoreDifference"]; width: number }) {
  const { lower = 0, upper = 0, difference: middle = 0 } = difference;
  const most = Math.max(-lower, upper, 1e-300) * 1.1;
  const x = (value: number) => (width / 2) * (1 + value / most);
  const kind = lower > 0 ? "off" : "";
  return <svg class="interval" width={width} height={HEIGHT} aria-hidden="true">
    <line class="base" x1={0} x2={width} y1={HEIGHT / 2} y2={HEIGHT / 2} />
    <rect class={`bar ${kind}`} x={x(lower)} y={3} width={Math.max(2, x(upper) - x(lower))} height={HEIGHT - 6} />
    <circle class={`bar ${kind}`} cx={x(middle)} cy={HEIGHT / 2} r={4} />
    <line class="zero" x1={width / 2} x2={width / 2} y1={0} y2={HEIGHT} />
  </svg>;
}
