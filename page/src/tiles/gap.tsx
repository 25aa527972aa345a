import { percent, points } from "../format";
import { Tile, type TileProps } from "./tile";

export function GapTile({ calibration }: TileProps) {
  const { reading } = calibration;
  const interval = reading?.howBad?.interval;
  if (interval === undefined) return <Tile title="Gap: stated − observed" value="–" />;
  const gap = interval.gap ?? 0;
  return <Tile title="Gap: stated − observed" value={`${gap > 0 ? "+" : ""}${points(gap).replace("-", "−")}`} unit="points">
    {points(interval.gapLower).replace("-", "−")} to {points(interval.gapUpper).replace("-", "−")}
    {interval.stated !== undefined && <>; stated {percent(interval.stated)}, observed {percent(interval.stated - gap)}</>}
  </Tile>;
}
