import { count, int, percent } from "../format";
import { Tile, type TileProps } from "./tile";

export function LabelsTile({ calibration }: TileProps) {
  const arrivals = calibration.labelArrivals;
  if (int(calibration.observations) === 0 && arrivals === undefined) return <Tile title="Labels" value="–" />;
  if (arrivals === undefined) return <Tile title="Labels" value="all">labels come with their predictions</Tile>;
  const missing = arrivals.missingRate;
  return <Tile title="Labels" value={missing === undefined ? "–" : percent(1 - missing)}>
    {count(int(arrivals.matured))} due, {count(int(arrivals.missing))} missing, {count(int(arrivals.pending))} pending
  </Tile>;
}
