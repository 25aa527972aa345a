// Rows that were evaluated once, such as those of a file.
import { count, int } from "../format";
import { Banner } from "../parts";
import { ErrorTile } from "../tiles/error";
import { GapTile } from "../tiles/gap";
import { Tile } from "../tiles/tile";
import { AlarmsView } from "../views/alarms";
import { DataView } from "../views/data";
import { CoverageView } from "../views/forecast";
import { HistoryView } from "../views/history";
import { FIRST_VIEWS, VIEWS } from "../views/index";
import { LensesView } from "../views/lenses";
import { Sentences } from "../views/sentences";
import { SourceView } from "../views/source";
import type { ViewProps } from "../views/view";
import { ScoresView } from "./scores";
import { TestsView } from "./tests";

type View = (typeof VIEWS)[number] | (typeof FIRST_VIEWS)[number];

// What only a model of a server has.
const SERVED: View[] = [HistoryView, DataView, AlarmsView, SourceView];
// Side by side on a wide screen, instead of the history.
const FIRST: View[] = [...FIRST_VIEWS, LensesView, CoverageView].filter((view) => !SERVED.includes(view));
const REST: View[] = [...VIEWS, ScoresView, TestsView].filter((view) => !SERVED.includes(view) && !FIRST.includes(view));

export function RowsParts(props: ViewProps) {
  const { calibration, model } = props;
  return <>
    <Banner calibration={calibration} />
    <dl class="tiles">
      <ErrorTile calibration={calibration} />
      {model?.forecast === undefined && <GapTile calibration={calibration} />}
      <Tile title="Rows" value={count(int(calibration.observations))} />
    </dl>
    <Sentences calibration={calibration} />
    <div class="top">{FIRST.map((View, i) => <View key={i} {...props} />)}</div>
    <div class="parts">{REST.map((View, i) => <View key={i} {...props} />)}</div>
  </>;
}
