// How often each label held, by how probable it was said to be on average.
import { scaleLinear } from "../charts/scale";
import { Chart } from "../charts/chart";
import { Dots, ticksOf, XAxis, YAxis } from "../charts/marks";
import { int, plain } from "../format";
import { Section } from "../parts";
import type { ViewProps } from "./view";

const LEFT = 36;
const TOP = 26;
const RIGHT = 12;
const BOTTOM = 40;
const MOST = 330;

export function LabelDiagramView({ calibration }: ViewProps) {
  const labels = (calibration.labels?.labels ?? []).filter(({ error }) => error !== undefined);
  if (labels.length === 0) return null;
  const name = calibration.model ?? "";
  // The server's order: the one that is off by most comes first.
  const worst = calibration.labels?.overLimit?.[0];
  const side = (width: number) => Math.min(MOST, width) - LEFT - RIGHT;
  return <Section title="Labels, stated and observed" id="label-diagram">
    <Chart title="Labels: stated and observed" file={`${name}-labels`} height={(width) => TOP + side(width) + BOTTOM}
      table={() => ({
        columns: ["label", "truths", "mean stated", "observed", "observed from", "observed to", "status"],
        rows: labels.map(({ name: label, truths, stated, held, error, status }) => [label ?? "", int(truths), stated ?? 0, held ?? 0,
          (stated ?? 0) - (error?.gapUpper ?? 0), (stated ?? 0) - (error?.gapLower ?? 0), status ?? ""]),
      })}
      note="A point for each label, with the interval of its frequency; ◆ is over the limit.">
      {({ width }) => {
        const x = scaleLinear([0, 1], [LEFT, LEFT + side(width)]);
        const y = scaleLinear([0, 1], [TOP + side(width), TOP]);
        return <>
          <YAxis title="observed frequency" ticks={ticksOf(y, 5, String)} x={LEFT} to={x(1)} top={TOP} />
          <line class="diagonal" x1={x(0)} y1={y(0)} x2={x(1)} y2={y(1)} />
          <Dots size={5} dots={labels.map(({ stated = 0, held = 0, error, status }) => ({
            x: x(stated), y: y(held), lower: y(Math.max(0, stated - (error?.gapUpper ?? 0))),
            upper: y(Math.min(1, stated - (error?.gapLower ?? 0))), kind: status === "OVER_LIMIT" ? "off" : "",
          }))} />
          {labels.filter((label) => label.name === worst).map(({ name: label = "", stated = 0, held = 0 }) =>
            <text key={label} class="name" x={x(stated) + (stated < 0.6 ? 10 : -10)} y={y(held) + 4}
              text-anchor={stated < 0.6 ? "start" : "end"}>{plain(label).slice(0, 24)}</text>)}
          <XAxis title="mean stated probability" ticks={ticksOf(x, 5, String)} y={y(0)} from={LEFT} to={x(1)} />
        </>;
      }}
    </Chart>
  </Section>;
}
