// What a recalibration map would gain.
import type { Interval } from "../api";
import { Chart } from "../charts/chart";
import { Forest, forestHeight, type ForestRow } from "../charts/forest";
import { count, int, plain, points } from "../format";
import { Again, Compute, Section, TableBelow } from "../parts";
import type { ViewProps } from "./view";

export function RecalibrationView({ calibration, model, recalibration, ask }: ViewProps) {
  const value = recalibration.value ?? calibration.recalibration;
  if (model?.classes === undefined || (value === undefined && ask === undefined)) return null;
  if (value === undefined) {
    return <Section title="Recalibration" id="recalibration">
      <Compute answer={recalibration} start={ask?.recalibrate}>The map that helps most, and the error that it would leave.</Compute>
    </Section>;
  }
  const limit = calibration.error?.limit;
  const class1 = value.class1Name === undefined || value.class1Name === "" ? "class 1" : value.class1Name;
  const errors: [string, Interval | undefined][] = [
    ["top label before", value.errorBefore], ["top label after", value.errorAfter],
    [`P(${class1}) before`, value.class1ErrorBefore], [`P(${class1}) after`, value.class1ErrorAfter],
  ];
  const rows = errors.flatMap(([name, interval]): ForestRow[] => interval === undefined ? [] : [{
    name, value: (interval.lower ?? 0) > 0 ? interval.estimate : undefined, lower: interval.lower ?? 0, upper: interval.upper ?? 0,
    kind: limit !== undefined && (interval.lower ?? 0) > limit ? "off" : "",
  }]);
  return <Section title="Recalibration" id="recalibration">
    <p class="words">{plain(value.text ?? "")}</p>
    {recalibration.error !== "" && <p class="empty">{recalibration.error}</p>}
    <Chart title="Error before and after recalibration" file={`${calibration.model ?? ""}-recalibration`} height={(width) => forestHeight(rows, width)}
      table={() => ({
        columns: ["error of", "estimate", "from", "to"],
        rows: errors.flatMap(([name, interval]) => interval === undefined ? []
          : [[name, interval.estimate ?? 0, interval.lower ?? 0, interval.upper ?? 0]]),
      })}
      controls={ask && <Again of="advice" start={ask.recalibrate} />}
      note={`${count(int(value.testObservations))} rows that did not choose the map, with 95 % intervals; dashed: the limit.`}>
      {({ width }) => <Forest rows={rows} width={width} title="error (points)" format={points} limit={limit} />}
    </Chart>
    <div class="more"><TableBelow title="Kinds of maps" of="by their log loss" table={() => ({
      columns: ["map", "log loss (nats), cross-validated"],
      rows: (value.candidates ?? []).map(({ kind, crossValidatedLogLoss }) => [kind ?? "", (crossValidatedLogLoss ?? 0).toFixed(4)]),
    })} /></div>
  </Section>;
}
