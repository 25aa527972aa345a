// A report: a model as it was, or rows that were evaluated once, in a file that needs no server.
import { render } from "preact";
import { useState } from "preact/hooks";
import { fittingHistory } from "../api";
import { plain, shortName } from "../format";
import { useRead } from "../live";
import { Name, Time } from "../parts";
import { ModelParts } from "../views/model";
import type { Answer, ViewProps } from "../views/view";
import { historyOf, report } from "./data";
import { calibrationOf, modelOf } from "./evaluation";
import { RowsParts } from "./rows";

const NOTHING = { error: "", wanted: false };

function given<T>(value: T | undefined): Answer<T> {
  return { ...NOTHING, value };
}

function Report() {
  const { name, createTime, evaluation, estimate } = report;
  const { calibration = calibrationOf(report), model = modelOf(report) } = report;
  const [span, chooseSpan] = useState<number | undefined>(undefined);
  const history = useRead(async () => (span === undefined ? fittingHistory(historyOf) : historyOf(span)), String(span));
  const props: ViewProps = { calibration, model, history, diagrams: given(evaluation), evaluation: given(evaluation),
    labelDiagram: NOTHING, other: NOTHING, estimate: given(estimate), recalibration: NOTHING, chooseSpan, ask: undefined };
  const version = calibration.provenance?.version;
  return <>
    <header>
      <h1><Name name={name} /></h1>
      <span class="description"><bdi>{plain(model.description ?? "")}</bdi></span>
      <span class="made">report of <Time time={createTime} />{version !== undefined && `, calibd ${version}`}</span>
    </header>
    <main class="model">
      {report.calibration === undefined ? <RowsParts {...props} /> : <ModelParts {...props} />}
    </main>
  </>;
}

document.title = `${shortName(report.name)} – calibd`;
render(<Report />, document.getElementById("page")!);
