// Whether the model is better than another one: than its baseline by all rows, and than a chosen one by the newest rows.
import type { Schemas } from "../api";
import { DifferenceBar } from "../charts/difference";
import { count, decimal, int, plain, points, shortName } from "../format";
import { Section, WideTable } from "../parts";
import { OtherChoice } from "./other_choice";
import type { ViewProps } from "./view";

type Scores = Schemas["Comparison"];
type Difference = Schemas["ScoreDifference"];

function differencesOf(scores: Scores): [string, string, Difference][] {
  const all: [string, string, Difference | undefined][] = [
    ["log loss", "nats", scores.logLoss], ["Brier score", "", scores.brier], ["error of the top label", "points", scores.binnedError],
    ["CRPS", "unit of the outcome", scores.crps], ["log score", "nats", scores.logScore],
  ];
  return all.filter((one): one is [string, string, Difference] => one[2] !== undefined);
}

function Differences({ name, baseline, scores }: { name: string; baseline: string; scores: Scores }) {
  const label = `Comparison with ${baseline}`;
  return <WideTable label={label}>
    <caption>{scores.paired === true ? `The same ${count(int(scores.observations))} rows`
      : `${count(int(scores.observations))} and ${count(int(scores.baselineObservations))} different rows`}; a smaller score is better.</caption>
    <thead><tr>
      <th scope="col">score</th><th scope="col" class="number"><bdi>{shortName(name)}</bdi></th>
      <th scope="col" class="number"><bdi>{shortName(baseline)}</bdi></th><th scope="col">difference</th>
    </tr></thead>
    <tbody>{differencesOf(scores).map(([title, unit, one]) => {
      const format = unit === "points" ? points : decimal;
      const kind = (one.lower ?? 0) > 0 ? "worse" : (one.upper ?? 0) < 0 ? "better" : "";
      return <tr key={title}>
        <th scope="row">{title}{unit !== "" && <small> ({unit})</small>}</th>
        <td class="number">{format(one.model)}</td><td class="number">{format(one.baseline)}</td>
        <td class={kind}><DifferenceBar difference={one} width={150} />{plain(one.text ?? "")}</td>
      </tr>;
    })}</tbody>
  </WideTable>;
}

export function ComparisonView({ calibration, model, other, ask }: ViewProps) {
  const name = calibration.model ?? "";
  const { comparison } = calibration;
  const newest = other.value?.comparison.comparison;
  if (model?.labels !== undefined || (comparison === undefined && newest === undefined && ask === undefined)) return null;
  return <Section title="Comparison" id="comparison">
    {comparison !== undefined && <>
      <h3>With its baseline <bdi>{calibration.baseline}</bdi>, all rows</h3>
      <Differences name={name} baseline={calibration.baseline ?? ""} scores={comparison} />
    </>}
    {newest !== undefined && other.value !== undefined && <>
      <h3>With <bdi>{shortName(other.value.model)}</bdi>, newest rows</h3>
      <Differences name={name} baseline={other.value.model} scores={newest} />
    </>}
    {ask !== undefined && <p class="choice"><OtherChoice ask={ask} other={other} /></p>}
  </Section>;
}
