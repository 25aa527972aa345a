// Forecasts of numbers: where outcomes fall in what was forecast, and how much the intervals cover.
import { scaleLinear } from "../charts/scale";
import { Chart } from "../charts/chart";
import { Band, Bars, Dots, ticksOf, XAxis, YAxis } from "../charts/marks";
import { count, decimal, int, percent } from "../format";
import { DataTable, Section, type Table } from "../parts";
import { Square, squareHeight } from "./diagram";
import type { ViewProps } from "./view";

const LEFT = 44;
const TOP = 26;
const RIGHT = 18;
const PLOT = 190;
const BOTTOM = 40;
// The Normal quantile of a pointwise band of 90 %.
const BAND = 1.645;

export function PitView({ calibration }: ViewProps) {
  const cells = calibration.verdict?.whereabouts?.cells ?? [];
  if (cells.length === 0) return null;
  const name = calibration.model ?? "";
  const total = cells.reduce((sum, cell) => sum + int(cell.observations), 0);
  const densities = cells.map((cell) => int(cell.observations) / Math.max(1e-9, cell.expected ?? 0));
  const most = Math.min(5, Math.max(2, ...densities.map((value) => 1.05 * value)));
  return <Section title="Where outcomes fall" id="pit">
    <Chart title="Outcomes by their place in the forecast" file={`${name}-pit`} height={() => TOP + PLOT + BOTTOM}
      table={() => ({
        columns: ["from", "to", "outcomes", "expected", "z", "stands out"],
        rows: cells.map((cell) => [cell.lower ?? 0, cell.upper ?? 0, int(cell.observations), cell.expected ?? 0, cell.z ?? 0,
          cell.standsOut === true ? "yes" : ""]),
      })}
      note={`${count(total)} outcomes. A calibrated model has height 1, within the grey band with 90 % in each cell; orange cells stand out.${densities.some((value) => value > most) ? ` Cells are cut at ${decimal(most)}.` : ""}`}>
      {({ width }) => {
        const x = scaleLinear([0, 1], [LEFT, width - RIGHT]);
        const y = scaleLinear([0, most], [TOP + PLOT, TOP]);
        return <>
          <YAxis title="outcomes / expected" ticks={ticksOf(y, 4, decimal)} x={LEFT} to={width - RIGHT} top={TOP} />
          <Bars bars={cells.map((cell, i) => ({
            from: x(cell.lower ?? 0) + 0.5, to: x(cell.upper ?? 0) - 0.5, top: y(Math.min(most, densities[i] ?? 0)),
            bottom: TOP + PLOT, kind: cell.standsOut === true ? "off" : "",
          }))} />
          <Band kind="expected" points={cells.flatMap((cell) => {
            const expected = Math.max(1e-9, cell.expected ?? 0);
            const half = BAND * Math.sqrt((1 - expected / Math.max(1, total)) / expected);
            const range = { lower: y(Math.max(0, 1 - half)), upper: y(Math.min(most, 1 + half)) };
            return [{ x: x(cell.lower ?? 0), ...range }, { x: x(cell.upper ?? 0), ...range }];
          })} />
          <line class="diagonal" x1={LEFT} x2={width - RIGHT} y1={y(1)} y2={y(1)} />
          <XAxis title="probability integral transform of the outcome" ticks={ticksOf(x, 5, String)} y={TOP + PLOT}
            from={LEFT} to={width - RIGHT} />
        </>;
      }}
    </Chart>
  </Section>;
}

export function CoverageView({ calibration }: ViewProps) {
  const error = calibration.error?.sinceAcknowledgement ?? calibration.error?.sinceStart;
  const central = error?.centralCoverage ?? calibration.forecast?.centralCoverage ?? [];
  const levels = error?.levelCoverage ?? calibration.forecast?.levelCoverage ?? [];
  const name = calibration.model ?? "";
  if (levels.length > 0) {
    return <Section title="Coverage" id="coverage">
      <DataTable label="Coverage of levels" table={{
        columns: ["level", "outcomes below", "at most", "interval from", "interval to"],
        rows: levels.map((one) => [decimal(one.level), percent(one.below), percent(one.atMost), percent(one.lower), percent(one.upper)]),
      }} />
    </Section>;
  }
  if (central.length === 0) return null;
  const table: Table = {
    columns: ["interval", "promised", "covered", "covered from", "covered to"],
    rows: central.map((one) => [one.nominal ?? 0, one.promised ?? 0, one.coverage ?? 0, one.lower ?? 0, one.upper ?? 0]),
  };
  const isOff = (one: (typeof central)[number]) => (one.lower ?? 0) > (one.promised ?? 0) || (one.upper ?? 1) < (one.promised ?? 0);
  return <Section title="Coverage" id="coverage">
    <Chart title="Coverage of central intervals" file={`${name}-coverage`} height={squareHeight} table={() => table}
      note={central.map((one) => `${percent(one.promised)} promised, ${percent(one.coverage)} covered (${percent(one.lower)} to ${percent(one.upper)})`).join("; ") + "."}>
      {({ width }) => <Square width={width} axis="promised coverage">{(x, y) =>
        <Dots size={5} dots={central.map((one) => ({
          x: x(one.promised ?? 0), y: y(one.coverage ?? 0), lower: y(one.lower ?? 0), upper: y(one.upper ?? 0), kind: isOff(one) ? "off" : "",
        }))} />}</Square>}
    </Chart>
  </Section>;
}
