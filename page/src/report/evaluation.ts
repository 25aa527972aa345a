// An evaluation of rows in the form of the answer about a model, so that the same views show it.
import type { Calibration, Evaluation, Model, Schemas } from "../api";
import { int } from "../format";
import type { ReportData } from "./data";

function groupsOf(evaluation: Evaluation, limit: number | undefined): Calibration["groups"] {
  return (evaluation.groups ?? []).map((group) => ({
    value: group.name ?? "",
    rejected: group.rejected ?? false,
    error: {
      status: group.status, limit,
      sinceStart: { observations: group.observations, topLabel: group.error, class1: group.class1Error, class1IsWorse: group.class1IsWorse },
    },
    watch: { evidence: { log10EValue: group.log10EValue } },
  }));
}

function coverageOf(forecast: Schemas["ForecastEvaluation"]): Schemas["ErrorMeasurement"] {
  return {
    observations: forecast.scores?.observations,
    coverage: { estimate: forecast.coverageError, lower: forecast.coverageErrorLower, upper: forecast.coverageErrorUpper },
    centralCoverage: forecast.scores?.centralCoverage,
    levelCoverage: forecast.scores?.levelCoverage,
  };
}

// The number of classes is known where a lens was computed, and where there are two.
function classCount(evaluation: Evaluation): number {
  const classes = evaluation.lenses?.map(({ result }) => result?.provenance?.classCount ?? 0) ?? [];
  return Math.max(0, ...classes, evaluation.class1Error === undefined ? 0 : 2);
}

// A model of the kind of the rows.
export function modelOf({ name, evaluation, labels }: ReportData): Model {
  if (labels !== undefined) return { name, labels: { names: [] } };
  if (evaluation?.forecast !== undefined) return { name, forecast: {} };
  const count = evaluation === undefined ? 0 : classCount(evaluation);
  const class1 = evaluation?.class1Name;
  // The names of the others are not in the answer.
  return { name, classes: class1 === undefined || class1 === "" ? { count } : { count, names: ["class 0", class1] } };
}

function rowsOf({ forecast, reliability }: Evaluation): string {
  if (forecast !== undefined) return forecast.scores?.observations ?? "0";
  return String((reliability?.[0]?.bins ?? []).reduce((sum, { n }) => sum + int(n), 0));
}

export function calibrationOf({ name, evaluation = {}, labels }: ReportData): Calibration {
  if (labels !== undefined) {
    return { model: name, observations: labels.rows, labels, reading: labels.reading, error: { limit: labels.errorLimit } };
  }
  const limit = evaluation.errorLimit;
  const { forecast } = evaluation;
  return {
    model: name,
    observations: rowsOf(evaluation),
    reading: evaluation.reading,
    error: {
      limit, status: evaluation.limitStatus,
      sinceStart: forecast === undefined ? { topLabel: evaluation.error, class1: evaluation.class1Error } : coverageOf(forecast),
    },
    groups: groupsOf(evaluation, limit),
    verdict: forecast === undefined ? {} : { whereabouts: { cells: forecast.cells } },
    forecast: forecast?.scores,
    provenance: evaluation.lenses?.[0]?.result?.provenance,
  };
}
