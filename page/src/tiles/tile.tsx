import type { ComponentChildren } from "preact";
import type { Calibration } from "../api";
import { plain } from "../format";

export interface TileProps {
  calibration: Calibration;
}

// A number with what it is, a picture of it, and what belongs to it in smaller letters. of: the part of the model that it is
// about; empty for the model.
export function Tile({ title, of, value, unit, picture, children }: {
  title: string;
  of?: string | undefined;
  value: ComponentChildren;
  unit?: string;
  picture?: ComponentChildren;
  children?: ComponentChildren;
}) {
  return <div class="tile">
    <dt>{title}{of && <>: <bdi>{plain(of)}</bdi></>}</dt>
    <dd><div class="value"><strong>{value}{unit !== undefined && <small> {unit}</small>}</strong>{picture}</div>{children !== undefined && <span>{children}</span>}</dd>
  </div>;
}
