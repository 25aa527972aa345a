import { count, int } from "../format";
import { Age } from "../parts";
import { Tile, type TileProps } from "./tile";

export function DataTile({ calibration, now }: TileProps) {
  return <Tile title="Rows" value={count(int(calibration.observations))}>
    newest <Age time={calibration.lastObservationTime} now={now} /> ago; {count(int(calibration.rejectedRows))} rejected,
    {" "}{count(int(calibration.droppedRows))} dropped
  </Tile>;
}
