// How large the error is by several estimators. It costs the server some seconds, so that a reader asks for it.
import { Chart } from "../charts/chart";
import { Forest, forestHeight, type ForestRow } from "../charts/forest";
import { count, int, plain, points } from "../format";
import { Compute, Section } from "../parts";
import type { ViewProps } from "./view";

export function EstimateView({ calibration, model, estimate, ask }: ViewProps) {
  const { value } = estimate;
  if (model?.classes === undefined || (value === undefined && ask === undefined)) return null;
  const outcomes = value?.estimators ?? [];
  const rows = outcomes.map(({ estimator, error = 0, errorStandardError = 0 }): ForestRow => ({
    name: estimator?.toLowerCase() ?? "", value: error, lower: Math.max(0, error - errorStandardError), upper: error + errorStandardError,
    kind: estimator === value?.chosen ? "chosen" : "",
  }));
  return <Section title="Estimated error" id="estimate">
    {value === undefined ? <Compute answer={estimate} start={ask?.estimate}>By each estimator.</Compute> : <>
      <p class="words">{plain(value.text ?? "")}</p>
      <Chart title="Estimated error by estimator" file={`${calibration.model ?? ""}-estimate`} height={(width) => forestHeight(rows, width)}
        table={() => ({
          columns: ["estimator", "error", "standard error", "squared error", "excess risk", "its standard error", "parameter", "better than 0"],
          rows: outcomes.map((one) => [one.estimator?.toLowerCase() ?? "", one.error ?? 0, one.errorStandardError ?? 0, one.squaredError ?? 0,
            one.excessRisk ?? 0, one.excessRiskStandardError ?? 0, one.parameter ?? 0, one.betterThanZero === true ? "yes" : "no"]),
        })}
        note={<>Newest {count(int(value.provenance?.observations))} rows. ◆ is the estimator that predicts best. Bars: the standard
          error over folds, no confidence interval.{(value.leftOut ?? []).map(({ estimator, reason }) => ` ${estimator?.toLowerCase()}: ${reason}.`)}</>}>
        {({ width }) => <Forest rows={rows} width={width} title="root mean square error of the top label (points)" format={points} />}
      </Chart>
    </>}
  </Section>;
}
