// Groups, labels and classes, the worst first.
import type { Calibration, Interval } from "../api";
import { IntervalBar } from "../charts/interval";
import { count, decimal, int, percent, plain, points } from "../format";
import { Section, WideTable } from "../parts";
import type { ViewProps } from "./view";

interface Line {
  name: string;
  status: string;
  interval: Interval | undefined;
  limit: number | undefined;
  rows: number;
  stated: number | undefined;
  observed: number | undefined;
  evidence: number | undefined;
  rejected: boolean;
}

function groupsOf(calibration: Calibration): Line[] {
  return (calibration.groups ?? []).map((group) => {
    const error = group.error?.sinceAcknowledgement ?? group.error?.sinceStart;
    const interval = error?.class1IsWorse === true ? error.class1 : error?.topLabel ?? error?.coverage;
    return {
      name: group.overflow === true ? "(other groups)" : group.value === "" ? "(no value)" : group.value ?? "",
      status: group.error?.status ?? "", interval, limit: group.error?.acknowledgedLimit ?? group.error?.limit, rows: int(error?.observations),
      stated: interval?.stated, observed: interval?.stated === undefined ? undefined : interval.stated - (interval.gap ?? 0),
      evidence: group.watch?.evidence?.log10EValue, rejected: group.rejected === true,
    };
  });
}

function labelsOf(calibration: Calibration): Line[] {
  const limit = calibration.labels?.errorLimit;
  return (calibration.labels?.labels ?? []).map((label) => ({
    name: label.name ?? "", status: label.status ?? "", interval: label.error, limit: label.acknowledgedLimit ?? limit, rows: int(label.truths),
    stated: label.stated, observed: label.held, evidence: label.log10EValue, rejected: label.rejected === true,
  })).sort((a, b) => (b.interval?.lower ?? 0) - (a.interval?.lower ?? 0) || (b.interval?.estimate ?? 0) - (a.interval?.estimate ?? 0));
}

function classesOf(calibration: Calibration): Line[] {
  return (calibration.verdict?.whereabouts?.classes ?? []).map((one) => ({
    name: one.className === undefined || one.className === "" ? `class ${one.classIndex ?? 0}` : one.className,
    status: "", interval: undefined, limit: undefined, rows: 0, stated: one.predicted, observed: one.observed,
    evidence: one.log10EValue, rejected: one.rejected === true,
  }));
}

function Lines({ title, id, lines }: { title: string; id: string; lines: Line[] }) {
  if (lines.length === 0) return null;
  const measured = lines.some(({ interval }) => interval !== undefined);
  const most = Math.max(0.05, ...lines.map(({ interval, limit }) => Math.max(interval?.upper ?? 0, 1.5 * (limit ?? 0))));
  return <Section title={title} id={id}>
    <WideTable label={title}>
      <thead><tr>
        <th scope="col">name</th>
        {measured && <><th scope="col">status</th><th scope="col">error (points)</th><th scope="col" class="number">limit (points)</th><th scope="col" class="number">rows</th></>}
        <th scope="col" class="number">stated</th><th scope="col" class="number">observed</th>
        <th scope="col" class="number">log10 e-value</th><th scope="col">rejected</th>
      </tr></thead>
      <tbody>{lines.map((line, i) => <tr key={i}>
        <th scope="row"><bdi>{plain(line.name)}</bdi></th>
        {measured && <>
          <td class={line.status === "OVER_LIMIT" ? "off" : ""}>{line.status}</td>
          <td><IntervalBar interval={line.interval} limit={line.limit} most={most} width={110} />{" "}
            {line.interval !== undefined && `${points(line.interval.estimate)} (${points(line.interval.lower)} to ${points(line.interval.upper)})`}</td>
          <td class="number">{line.limit === undefined ? "" : points(line.limit)}</td>
          <td class="number">{count(line.rows)}</td>
        </>}
        <td class="number">{line.stated === undefined ? "" : percent(line.stated)}</td>
        <td class="number">{line.observed === undefined ? "" : percent(line.observed)}</td>
        <td class="number">{decimal(line.evidence)}</td>
        <td>{line.rejected ? "yes" : ""}</td>
      </tr>)}</tbody>
    </WideTable>
  </Section>;
}

export function BreakdownView({ calibration }: ViewProps) {
  return <>
    <Lines title="Groups" id="groups" lines={groupsOf(calibration)} />
    <Lines title="Labels" id="labels" lines={labelsOf(calibration)} />
    <Lines title="Classes" id="classes" lines={classesOf(calibration)} />
  </>;
}
