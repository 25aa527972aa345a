// The calibration error of the parts of a prediction, each against what a calibrated model shows.
import { Chart } from "../charts/chart";
import { Forest, forestHeight, type ForestRow } from "../charts/forest";
import { decimal, int } from "../format";
import { isCheap } from "../answers";
import { Compute, rowsText, Section } from "../parts";
import type { ViewProps } from "./view";

export function LensesView({ calibration, model, evaluation, ask }: ViewProps) {
  const { value } = evaluation;
  const lenses = (value?.lenses ?? []).flatMap(({ lens = "", result }) => result === undefined ? [] : [{ lens, result }]);
  const leftOut = (value?.lenses ?? []).filter(({ error }) => error !== undefined && error !== "");
  if (lenses.length === 0) {
    return ask === undefined || model?.classes === undefined || calibration.insufficientData !== undefined ? null
      : <Section title="Lenses" id="lenses">
        <Compute answer={evaluation} start={ask.evaluate} auto={isCheap(model)}>Lenses and classes.</Compute>
      </Section>;
  }
  const rows = lenses.map(({ lens, result }): ForestRow => {
    const skce = result.skceUnbiased ?? 0;
    const most = result.noiseFloorUnbiased?.upperQuantile;
    return { name: lens, value: skce, lower: skce, upper: skce,
      kind: most !== undefined && skce > most ? "off" : "", expected: most === undefined ? undefined : [0, most] };
  });
  return <Section title="Lenses" id="lenses">
    <Chart title="Calibration error by lens" file={`${calibration.model ?? ""}-lenses`} height={(width) => forestHeight(rows, width)}
      table={() => ({
        columns: ["lens", "SKCE, unbiased", "95 % if calibrated", "KCE from", "KCE to", "bandwidth"],
        rows: lenses.map(({ lens, result }) => [lens, result.skceUnbiased ?? 0, result.noiseFloorUnbiased?.upperQuantile ?? "",
          result.kceLowerBound ?? "", result.kceUpperBound ?? "", result.provenance?.bandwidth ?? ""]),
      })}
      note={<>{rowsText(calibration, int(lenses[0]?.result.provenance?.observations))}. ◆ is above the grey range, which a calibrated
        model exceeds one time in twenty.{leftOut.map(({ lens, error }) => ` ${lens}: ${error}.`)}</>}>
      {({ width }) => <Forest rows={rows} width={width} title="squared kernel calibration error (SKCE)" format={decimal} />}
    </Chart>
  </Section>;
}
