// One model: the verdict, how far off it is, where, since when, whether it is still so, and what to do.
import { useEffect } from "preact/hooks";
import { useAnswers } from "../answers";
import { getModel } from "../api";
import { plain, shortName } from "../format";
import { useCalibration, useRead } from "../live";
import { Banner, Name } from "../parts";
import { TILES } from "../tiles";
import { FIRST_VIEWS, VIEWS } from "./index";
import { Sentences } from "./sentences";
import { Status } from "./status";
import type { ViewProps } from "./view";

// All of it, from what is given.
export function ModelParts(props: ViewProps) {
  const { calibration } = props;
  return <>
    <Banner calibration={calibration} />
    <dl class="tiles">{TILES.map((Tile, i) => <Tile key={i} calibration={calibration} />)}</dl>
    <Sentences calibration={calibration} />
    <p class="note">A point is a percentage point.</p>
    <div class="top">{FIRST_VIEWS.map((View, i) => <View key={i} {...props} />)}</div>
    <div class="parts">{VIEWS.map((View, i) => <View key={i} {...props} />)}</div>
  </>;
}

export function ModelView({ name }: { name: string }) {
  const { value: calibration, error, lostSince } = useCalibration(name);
  const { value: model } = useRead(() => getModel(name), name);
  const answers = useAnswers(name, calibration, model);
  useEffect(() => {
    document.title = `${shortName(name)} – calibd`;
  }, [name]);
  return <>
    <header>
      <a href="#/">All models</a>
      <h1><Name name={name} /></h1>
      <span class="description"><bdi>{plain(model?.description ?? "")}</bdi></span>
      <Status error={error} lostSince={lostSince} />
    </header>
    {calibration === undefined ? <main><p class="empty">{error === "" ? "reading…" : error}</p></main>
      : <main class="model"><ModelParts calibration={calibration} model={model} {...answers} /></main>}
  </>;
}
