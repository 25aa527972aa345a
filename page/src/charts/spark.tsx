// The errors of the spans of a history, without axes: the range of each, against the limit.
import type { Bucket } from "../api";
import { rangeKind } from "./interval";
import { ceilingOf } from "./scale";

export function Spark({ buckets, limit, width, height }: {
  buckets: Bucket[];
  limit: number | undefined;
  width: number;
  height: number;
}) {
  const measured = buckets.filter((bucket) => bucket.error !== undefined);
  if (measured.length === 0) return null;
  const errorOf = (bucket: Bucket) => (bucket.class1IsWorse ? bucket.class1Error : bucket.error) ?? {};
  const times = measured.map((bucket) => Date.parse(bucket.startTime ?? ""));
  const first = times[0]!;
  const last = Date.parse(measured.at(-1)!.endTime ?? "");
  const most = ceilingOf(measured.map((bucket) => errorOf(bucket).upper ?? 0), 2.5 * (limit ?? 0.02));
  const x = (time: number) => (width * (time - first)) / Math.max(1, last - first);
  const y = (error: number) => height - height * Math.min(1, error / most);
  return <svg class="spark" width={width} height={height} aria-hidden="true">
    {measured.map((bucket, i) => {
      const error = errorOf(bucket);
      const end = Date.parse(bucket.endTime ?? "");
      const top = y(error.upper ?? 0);
      return <rect key={i} class={`bar ${rangeKind(error, limit)}`} x={x(times[i]!)} y={top}
        width={Math.max(1, x(end) - x(times[i]!) - 0.5)} height={Math.max(1, y(error.lower ?? 0) - top)} />;
    })}
    {limit !== undefined && <line class="limit" x1={0} x2={width} y1={y(limit)} y2={y(limit)} />}
  </svg>;
}
