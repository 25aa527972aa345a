import type { ComponentChildren } from "preact";
import type { Calibration } from "../api";

export interface TileProps {
  calibration: Calibration;
}

// A number with what it is, a picture of it, and what belongs to it in smaller letters.
export function Tile({ title, value, unit, picture, children }: {
  title: string;
  value: ComponentChildren;
  unit?: string;
  picture?: ComponentChildren;
  children?: ComponentChildren;
}) {
  return <div class="tile">
    <dt>{title}</dt>
    <dd><div class="value"><strong>{value}{unit !== undefined && <small> {unit}</small>}</strong>{picture}</div>{children !== undefined && <span>{children}</span>}</dd>
  </div>;
}
