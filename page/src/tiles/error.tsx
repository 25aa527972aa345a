import { IntervalBar } from "../charts/interval";
import type { Interval } from "../api";
import { points } from "../format";
import { Tile, type TileProps } from "./tile";

// The estimate, or the interval if that begins at 0, because the estimate is then mostly noise.
export function sizeOf(interval: Interval): string {
  return (interval.lower ?? 0) > 0 ? points(interval.estimate) : `${points(interval.lower)} to ${points(interval.upper)}`;
}

// The error at the right end of the pictures of both tiles.
export function scaleOf({ reading, error }: TileProps["calibration"]): number {
  const { interval, newest } = reading?.howBad ?? {};
  return Math.max(2 * (error?.limit ?? 0), 1.1 * Math.max(interval?.upper ?? 0, newest?.upper ?? 0));
}

export function ErrorTile({ calibration }: TileProps) {
  const { reading, error } = calibration;
  const interval = reading?.howBad?.interval;
  if (interval === undefined) return <Tile title="Error" value="–" />;
  const limit = error?.limit ?? 0;
  return <Tile title="Error" of={reading?.howBad?.subject} value={sizeOf(interval)} unit="points"
    picture={<IntervalBar interval={interval} limit={limit} most={scaleOf(calibration)} width={100} />}>
    {points(interval.lower)} to {points(interval.upper)}, limit {points(limit)}
  </Tile>;
}
