// What a report is made of: messages of the API as JSON, which follow the script in the file. calibctl and the Python
// package write them.
import { type Calibration, type Estimate, type Evaluation, type Model, type Schemas, SPANS } from "../api";

export interface ReportData {
  // "models/M" or "models/M/versions/V", or a name for rows that no server knows.
  name: string;
  // When the report was made.
  createTime: string;
  // A model of a server, and what it was at each time: the hours of 14 days, the days of 1000 days, the minutes of 3 h.
  model?: Model;
  calibration?: Calibration;
  histories?: Record<"MINUTE" | "HOUR" | "DAY", Schemas["GetHistoryResponse"]>;
  // The newest rows of the model, or rows without a server. Rows of several labels have `labels` instead.
  evaluation?: Evaluation;
  estimate?: Estimate;
  labels?: Schemas["MultilabelCalibration"];
}

export const report = JSON.parse(document.getElementById("report")!.textContent!) as ReportData;

// The history of one of SPANS, by its index.
export function historyOf(span: number) {
  const { resolution, seconds } = SPANS[span]!;
  const history = report.histories?.[resolution];
  const start = Date.parse(report.createTime) - 1000 * seconds;
  const buckets = (history?.buckets ?? []).filter(({ startTime }) => Date.parse(startTime ?? "") >= start);
  return { buckets, updates: history?.updates ?? [], span };
}
