// Where outcomes fall in their forecasts over time, as a fan of the quantiles that fit them.
import { Chart } from "../charts/chart";
import { Bars, ticksOf, timeTicks, XAxis, YAxis } from "../charts/marks";
import { scaleLinear } from "../charts/scale";
import { decimal, int } from "../format";
import { Section } from "../parts";
import type { ViewProps } from "./view";

const LEFT = 40;
const RIGHT = 18;
const TOP = 26;
const PLOT = 190;
const BOTTOM = 40;
// Normal quantiles at the ends of the central intervals, the widest first.
const FAN = [{ share: 90, end: 1.645 }, { share: 80, end: 1.282 }, { share: 50, end: 0.674 }];
const MOST = 6;

export function FanView({ calibration, history: { value } }: ViewProps) {
  const spans = (value?.buckets ?? []).flatMap(({ startTime = "", endTime = "", direction, observations, forecast }) =>
    direction === undefined ? [] : [{ start: Date.parse(startTime), end: Date.parse(endTime), startTime, endTime, forecast,
      rows: int(observations), shift: direction.shift ?? 0, scale: direction.scale ?? 1 }]);
  if (spans.length === 0) return null;
  const most = Math.min(MOST, Math.max(2, ...spans.map(({ shift, scale }) => Math.abs(shift) + 1.7 * scale)));
  const coverages = spans[0]?.forecast?.centralCoverage ?? [];
  return <Section title="Fan of outcomes" id="fan">
    <Chart title="Outcomes around their forecasts over time" file={`${calibration.model ?? ""}-fan`} height={() => TOP + PLOT + BOTTOM}
      table={() => ({
        columns: ["from (UTC)", "to (UTC)", "rows", "shift", "scale", ...coverages.map(({ promised }) => `covered of ${decimal(promised)}`)],
        rows: spans.map(({ startTime, endTime, rows, shift, scale, forecast }) => [startTime, endTime, rows, shift, scale,
          ...(forecast?.centralCoverage ?? []).map(({ coverage }) => coverage ?? "")]),
      })}
      note="Bars: where the middle 50, 80 and 90 % of outcomes lie, by the Normal distribution that fits them; dashed: where the middle 50 and 90 % lie if the forecasts are right.">
      {({ width }) => {
        const right = width - RIGHT - 34;
        const x = scaleLinear([spans[0]!.start, spans.at(-1)!.end], [LEFT, right]);
        const y = scaleLinear([-most, most], [TOP + PLOT, TOP]);
        const clip = (value: number) => y(Math.max(-most, Math.min(most, value)));
        return <>
          <YAxis title="outcome − forecast (standard deviations of the forecast)" ticks={ticksOf(y, 5, decimal)} x={LEFT} to={right} top={TOP} />
          {FAN.map(({ share, end }) => <Bars key={share} bars={spans.map((span) => ({ from: x(span.start) + 0.5, to: x(span.end) - 0.5,
            top: clip(span.shift + end * span.scale), bottom: clip(span.shift - end * span.scale), kind: `fan-${share}` }))} />)}
          {spans.map(({ start, end, shift }) => <line key={start} class="estimate" x1={x(start) + 0.5} x2={x(end) - 0.5} y1={clip(shift)} y2={clip(shift)} />)}
          {FAN.filter(({ share }) => share !== 80).map(({ share, end }) => <g key={share}>
            <line class="diagonal" x1={LEFT} x2={right} y1={y(end)} y2={y(end)} />
            <line class="diagonal" x1={LEFT} x2={right} y1={y(-end)} y2={y(-end)} />
            <text x={right + 4} y={y(end) + 4}>{share} %</text>
          </g>)}
          <line class="diagonal" x1={LEFT} x2={right} y1={y(0)} y2={y(0)} />
          <XAxis title="time (UTC)" ticks={timeTicks(x, width < 500 ? 4 : 7)} y={TOP + PLOT} from={LEFT} to={right} />
        </>;
      }}
    </Chart>
  </Section>;
}
