import { count, int } from "../format";
import { Time } from "../parts";
import { Tile, type TileProps } from "./tile";

// The time of the newest row, not its age: the sentence about the data has the age when the answer was made.
export function DataTile({ calibration }: TileProps) {
  return <Tile title="Rows" value={count(int(calibration.observations))}>
    {calibration.lastObservationTime !== undefined && <>newest at <Time time={calibration.lastObservationTime} />; </>}
    {count(int(calibration.rejectedRows))} rejected,
    {" "}{count(int(calibration.droppedRows))} dropped
  </Tile>;
}
