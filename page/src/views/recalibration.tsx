// What a recalibration map would gain.
import type { Interval, Recalibration, Schemas } from "../api";
import { Chart } from "../charts/chart";
import { Forest, forestHeight, type ForestRow } from "../charts/forest";
import { Line } from "../charts/marks";
import { count, int, plain, points } from "../format";
import { Compute, Section } from "../parts";
import { Legend, Square, squareHeight, stepsOf } from "./diagram";
import type { ViewProps } from "./view";

// The reliability of the top label of the same rows.
function BeforeAndAfter({ advice, name }: { advice: Recalibration; name: string }) {
  const lines = [["before", advice.corpBefore ?? []], ["after", advice.corpAfter ?? []]] as const;
  return <Chart title="Reliability before and after recalibration" file={`${name}-recalibrated`} height={squareHeight}
    table={() => ({
      columns: ["line", "from", "to", "rows", "mean stated", "observed"],
      rows: lines.flatMap(([line, blocks]) => blocks.map((block) => [line, block.lower ?? 0, block.upper ?? 0, int(block.n),
        block.meanPrediction ?? 0, block.recalibrated ?? 0])),
    })}>
    {({ width }) => <Square width={width} axis="stated probability of the top label">{(x, y) => <>
      <Line kind="other" points={stepsOf(advice.corpBefore, x, y)} />
      <Line kind="main" points={stepsOf(advice.corpAfter, x, y)} />
      <Legend names={[{ kind: "main", name: "after" }, { kind: "other", name: "before" }]} />
    </>}</Square>}
  </Chart>;
}

// What the map of forecasts of a number makes of their levels.
function Levels({ curve: { levels = [], shares = [] }, name }: { curve: Schemas["RecalibrationMap.LevelCurve"]; name: string }) {
  return <Chart title="Levels before recalibration" file={`${name}-recalibrated`} height={squareHeight}
    table={() => ({ columns: ["stated level", "outcomes below"], rows: levels.map((level, i) => [level, shares[i] ?? 0]) })}
    note="The share of outcomes below each level in the rows that chose the map, which states it instead.">
    {({ width }) => <Square width={width} axis="stated level">{(x, y) =>
      <Line kind="main" points={[0, ...levels, 1].map((level, i) => [x(level), y([0, ...shares, 1][i] ?? 0)])} />}</Square>}
  </Chart>;
}

export function RecalibrationView({ calibration, model, recalibration, ask }: ViewProps) {
  const value = recalibration.value ?? calibration.recalibration;
  if (!model || model.labels || (value === undefined && ask === undefined)) return null;
  if (value === undefined) {
    return <Section title="Recalibration" id="recalibration">
      <Compute answer={recalibration} start={ask?.recalibrate}>The map that helps most, and the error that it would leave.</Compute>
    </Section>;
  }
  const limit = calibration.error?.limit;
  const class1 = value.class1Name === undefined || value.class1Name === "" ? "class 1" : value.class1Name;
  const what = model.classes ? "top label" : "coverage";
  const errors: [string, Interval | undefined][] = [
    [`${what} before`, value.errorBefore], [`${what} after`, value.errorAfter],
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
      note={`${count(int(value.testObservations))} rows that did not choose the map; 95 % intervals; dashed: the limit.`}>
      {({ width }) => <Forest rows={rows} width={width} title="error (points)" format={points} limit={limit} />}
    </Chart>
    {(value.corpAfter ?? []).length > 0 && <BeforeAndAfter advice={value} name={calibration.model ?? ""} />}
    {value.map?.levelCurve && <Levels curve={value.map.levelCurve} name={calibration.model ?? ""} />}
  </Section>;
}
