import { IntervalBar } from "../charts/interval";
import { count, int, points } from "../format";
import { scaleOf, sizeOf } from "./error";
import { Tile, type TileProps } from "./tile";

export function NowTile({ calibration }: TileProps) {
  const { reading, error } = calibration;
  const newest = reading?.howBad?.newest;
  if (newest === undefined) return <Tile title="Now" value="–" />;
  const limit = error?.limit ?? 0;
  return <Tile title="Now" of={reading?.howBad?.newestSubject} value={sizeOf(newest)} unit="points"
    picture={<IntervalBar interval={newest} limit={limit} most={scaleOf(calibration)} width={100} />}>
    {points(newest.lower)} to {points(newest.upper)}, newest {count(int(error?.newest?.observations))} rows
  </Tile>;
}
