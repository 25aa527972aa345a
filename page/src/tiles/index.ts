// The tiles of a model, in their order. A new one is a file and a line here.
import { DataTile } from "./data";
import { ErrorTile } from "./error";
import { GapTile } from "./gap";
import { LabelsTile } from "./labels";
import { NowTile } from "./now";

export const TILES = [ErrorTile, NowTile, GapTile, LabelsTile, DataTile];
