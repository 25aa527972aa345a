// One model: the verdict, how far off it is, where, since when, whether it is still so, and what to do.
import { useEffect } from "preact/hooks";
import { getModel } from "../api";
import { int, plain, shortName } from "../format";
import { useCalibration, useRead } from "../live";
import { Mark, Name, useNow } from "../parts";
import { TILES } from "../tiles";
import { AlarmsView } from "./alarms";
import { BreakdownView } from "./breakdown";
import { DiagramView } from "./diagram";
import { CoverageView, PitView } from "./forecast";
import { HistoryView } from "./history";
import { LabelDiagramView } from "./label_diagram";
import { Sentences } from "./sentences";
import { SourceView } from "./source";
import { Status } from "./status";

// Number of rows that a diagram needs.
const LEAST_ROWS = 2;

export function ModelView({ name }: { name: string }) {
  const { value: calibration, error, lostSince } = useCalibration(name);
  const { value: model } = useRead(() => getModel(name), name);
  const now = useNow();
  useEffect(() => {
    document.title = `${shortName(name)} – calibd`;
  }, [name]);
  const severity = calibration?.reading?.severity ?? 0;
  return <>
    <header>
      <a href="#/">All models</a>
      <h1><Name name={name} /></h1>
      <span class="description"><bdi>{plain(model?.description ?? "")}</bdi></span>
      <Status error={error} lostSince={lostSince} />
    </header>
    {calibration === undefined ? <main><p class="empty">{error === "" ? "reading…" : error}</p></main>
      : <main class="model">
        <p class={`banner rank-${Math.floor(severity)}`} role="status"><Mark severity={severity} />
          <strong>{plain(calibration.reading?.verdict?.text ?? "")}</strong></p>
        <dl class="tiles">{TILES.map((Tile, i) => <Tile key={i} calibration={calibration} now={now} />)}</dl>
        <Sentences calibration={calibration} />
        <div class="top">
          {model?.classes !== undefined && int(calibration.windowObservations) >= LEAST_ROWS && <DiagramView key={name} calibration={calibration} model={model} />}
          {model?.labels !== undefined && <LabelDiagramView calibration={calibration} />}
          {model?.forecast !== undefined && <PitView calibration={calibration} />}
          <HistoryView key={name} calibration={calibration} />
        </div>
        {model?.forecast !== undefined && <CoverageView calibration={calibration} />}
        <BreakdownView calibration={calibration} />
        <AlarmsView calibration={calibration} />
        <SourceView calibration={calibration} model={model} />
      </main>}
  </>;
}
