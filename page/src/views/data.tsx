// Which predictions and labels the numbers are about, and which are missing.
import { count, int, percent, plain } from "../format";
import { DataTable, Facts, Section } from "../parts";
import { classNameOf } from "./diagram";
import type { ViewProps } from "./view";

export function DataView({ calibration, model }: ViewProps) {
  const arrivals = calibration.labelArrivals;
  const { labels } = arrivals ?? {};
  const rate = (part: string | undefined, share: number | undefined) =>
    count(int(part)) + (share === undefined ? "" : ` (${percent(share)})`);
  const facts: [string, string][] = [
    ["rows counted", count(int(calibration.observations))],
    // Several labels have no computations of the newest rows.
    ...model?.labels === undefined ? [["rows in the window", count(int(calibration.windowObservations))] as [string, string]] : [],
    ["rows rejected", count(int(calibration.rejectedRows))],
    ["rows dropped by producers", count(int(calibration.droppedRows))],
    ...int(calibration.droppedLabels) > 0 ? [["labels dropped by producers", count(int(calibration.droppedLabels))] as [string, string]] : [],
  ];
  if (arrivals !== undefined) {
    facts.push(
      ["predictions", count(int(arrivals.predictions))],
      ["duplicate predictions", count(int(arrivals.duplicatePredictions))],
      ["pending", rate(arrivals.pending, arrivals.pendingRate)],
      ["without a label in time", rate(arrivals.missing, arrivals.missingRate)],
      ["late labels", rate(labels?.late, arrivals.lateRate)],
      ["conflicting labels", rate(labels?.conflicting, arrivals.conflictingRate)],
      ["labels with an unknown id", rate(labels?.unknown, arrivals.unknownRate)]);
  }
  // The server says some of them twice.
  const warnings = new Set([...(calibration.warnings ?? []), ...(arrivals?.warnings ?? [])]);
  // The server's order: the class with the most missing labels comes first.
  const classes = int(arrivals?.missing) === 0 ? [] : arrivals?.predictedClasses ?? [];
  return <Section title="Data" id="data">
    <Facts facts={facts} />
    {[...warnings].map((warning) => <p key={warning} class="warning">{plain(warning)}</p>)}
    {classes.length > 0 && <DataTable label="Missing labels by predicted class" table={{
      columns: ["predicted class", "predictions", "missing labels", "share missing", "pending"],
      rows: classes.map((one) => [plain(classNameOf(model, one.predictedClass ?? 0)), count(int(one.predictions)), count(int(one.missing)),
        percent(one.missingRate), count(int(one.pending))]),
    }} />}
  </Section>;
}
