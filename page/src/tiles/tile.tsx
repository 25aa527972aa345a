import type { ComponentChildren } from "preact";
import type { Calibration } from "../api";

export interface TileProps {
  calibration: Calibration;
  now: number;
}

// A number with what it is, and what belongs to it in smaller letters.
export function Tile({ title, value, unit, children }: {
  title: string;
  value: ComponentChildren;
  unit?: string;
  children?: ComponentChildren;
}) {
  return <div class="tile">
    <dt>{title}</dt>
    <dd><strong>{value}{unit !== undefined && <small> {unit}</small>}</strong>{children !== undefined && <span>{children}</span>}</dd>
  </div>;
}
