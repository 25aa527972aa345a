// Where the probability of each class is off: a line for each class, and a cell for each range of its probability.
import { Chart } from "../charts/chart";
import { type Cell, Cells, ticksOf, XAxis } from "../charts/marks";
import { scaleLinear } from "../charts/scale";
import { count, int, percent, plain, points } from "../format";
import { Section } from "../parts";
import { classNameOf } from "./diagram";
import type { ViewProps } from "./view";

const ROW = 22;
const TOP = 4;
const RIGHT = 12;
const BOTTOM = 40;
// A deviation that has the full colour.
const FULL = 0.3;
// Width of a cell that has room for a number.
const ROOM = 30;

export function HeatMapView({ calibration, model, evaluation: { value } }: ViewProps) {
  const diagrams = (value?.reliability ?? []).filter(({ classIndex }) => classIndex !== undefined);
  if (diagrams.length < 2) return null;
  // The server's order: the classes that it names first.
  const worst = (calibration.verdict?.whereabouts?.classes ?? []).map(({ classIndex }) => classIndex ?? 0);
  const rankOf = (index: number) => (worst.includes(index) ? worst.indexOf(index) : worst.length + index);
  const rows = diagrams.map((diagram) => ({ ...diagram, index: diagram.classIndex ?? 0 }))
    .sort((a, b) => rankOf(a.index) - rankOf(b.index));
  const classes = Number(model?.classes?.count ?? 0);
  return <Section title="Classes by probability" id="heat-map">
    <Chart title="Classes by stated probability" file={`${calibration.model ?? ""}-classes`} height={() => TOP + rows.length * ROW + BOTTOM}
      table={() => ({
        columns: ["class", "from", "to", "rows", "mean stated", "observed", "if calibrated from", "if calibrated to", "outside"],
        rows: rows.flatMap(({ index, bins }) => (bins ?? []).map((bin) => [classNameOf(model, index), bin.lower ?? 0, bin.upper ?? 0,
          int(bin.n), bin.meanPrediction ?? 0, bin.frequency ?? 0, bin.consistency?.lower ?? "", bin.consistency?.upper ?? "",
          bin.outside === true ? "yes" : ""])),
      })}
      note={`${rows.length < classes ? `${rows.length} of ${count(classes)} classes, those that deviate most. ` : ""}Numbers and colours: stated − observed in points; orange +, blue −. Grey: as a calibrated model shows. Blank: no rows.`}>
      {({ width }) => {
        const left = Math.min(130, width / 4);
        const x = scaleLinear([0, 1], [left, width - RIGHT]);
        const cells = rows.flatMap(({ index, bins }, i) => (bins ?? []).map((bin): Cell => {
          const gap = (bin.meanPrediction ?? 0) - (bin.frequency ?? 0);
          const [from, to] = [x(bin.lower ?? 0) + 0.5, x(bin.upper ?? 0) - 0.5];
          const sign = gap > 0 ? "+" : "−";
          const isOff = bin.outside === true;
          return {
            from, to, top: TOP + i * ROW + 1, bottom: TOP + (i + 1) * ROW - 1,
            kind: !isOff ? "calm" : gap > 0 ? "over" : "under", strength: isOff ? 0.25 + 0.45 * Math.min(1, Math.abs(gap) / FULL) : 0.5,
            text: !isOff ? "" : to - from < ROOM ? sign : sign + points(Math.abs(gap)),
            title: `${plain(classNameOf(model, index))}: ${count(int(bin.n))} rows, stated ${percent(bin.meanPrediction)}, observed ${percent(bin.frequency)}`,
          };
        }));
        return <>
          {rows.map(({ index }, i) => <text key={index} class="row" x={left - 8} y={TOP + (i + 0.5) * ROW + 4} text-anchor="end">
            {plain(classNameOf(model, index)).slice(0, Math.floor(left / 7))}</text>)}
          <Cells cells={cells} />
          <XAxis title="stated probability of the class" ticks={ticksOf(x, 5, String)} y={TOP + rows.length * ROW} from={left} to={width - RIGHT} />
        </>;
      }}
    </Chart>
  </Section>;
}
