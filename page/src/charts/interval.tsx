// An interval of an error against its limit, as a line of a list shows it.
import type { Interval } from "../api";

const HEIGHT = 16;

// How the interval of an error is drawn: "off" if all of it is over the limit, "open" if it is not
// known on which side of the limit the error is, and "" if all of it is within the limit.
export function rangeKind(interval: Interval, limit: number | undefined): "off" | "open" | "" {
  if (limit === undefined) return "";
  if ((interval.lower ?? 0) > limit) return "off";
  return (interval.upper ?? 0) > limit ? "open" : "";
}

export function IntervalBar({ interval, limit, most, width }: {
  interval: Interval | undefined;
  limit: number | undefined;
  // The error at the right end.
  most: number;
  width: number;
}) {
  if (interval === undefined || limit === undefined) return null;
  const x = (error: number) => 1 + (width - 2) * Math.min(1, error / most);
  const lower = interval.lower ?? 0;
  const kind = rangeKind(interval, limit);
  return <svg class="interval" width={width} height={HEIGHT} aria-hidden="true">
    <line class="base" x1={x(0)} x2={x(most)} y1={HEIGHT / 2} y2={HEIGHT / 2} />
    <rect class={`bar ${kind}`} x={x(lower)} y={4} width={Math.max(2, x(interval.upper ?? 0) - x(lower))} height={HEIGHT - 8} />
    {lower > 0 && <circle class={`bar ${kind}`} cx={x(interval.estimate ?? 0)} cy={HEIGHT / 2} r={5} />}
    <line class="limit" x1={x(limit)} x2={x(limit)} y1={0} y2={HEIGHT} />
  </svg>;
}
