// The API of the server that serves the page. Messages have the types of the OpenAPI description, which is
// made from the protos.
import type { components } from "./api_types";

export type Schemas = components["schemas"];
export type Calibration = Schemas["GetCalibrationResponse"];
export type Listed = Schemas["ListVerdictsResponse.ModelVerdict"];
export type Bucket = Schemas["HistoryBucket"];
export type Interval = Schemas["ErrorInterval"];
export type Measurement = Schemas["ErrorMeasurement"];
export type Alarm = Schemas["Alarm"];
export type Diagram = Schemas["Reliability"];
export type Label = Schemas["LabelCalibration"];
export type Model = Schemas["Model"];
export type Evaluation = Schemas["Evaluation"];
export type Comparison = Schemas["ModelComparison"];
export type Estimate = Schemas["CalibrationErrorEstimate"];
export type Recalibration = Schemas["Recalibration"];

// An answer that is not OK: its message is the server's, or says that there was none.
export class ApiError extends Error {
  constructor(message: string, readonly reached: boolean) {
    super(message);
  }
}

async function ask(path: string, init: RequestInit): Promise<unknown> {
  let response: Response;
  try {
    response = await fetch(path, init);
  } catch {
    throw new ApiError("The server does not answer.", false);
  }
  // The session has ended: the server shows the form for a token in place of the page.
  if (response.status === 401) location.reload();
  const text = await response.text();
  if (response.ok) return JSON.parse(text);
  try {
    throw new ApiError(String(JSON.parse(text).error.message), true);
  } catch (error) {
    throw error instanceof ApiError ? error : new ApiError(text, true);
  }
}

// Whether the browser has a session, whose token scripts cannot read.
export function hasSession(): boolean {
  return /(^|; )calibd-session=1(;|$)/.test(document.cookie);
}

export async function logOut(): Promise<void> {
  await fetch("/login", { method: "POST", body: new URLSearchParams({ token: "" }), redirect: "manual" });
  location.reload();
}

function post(path: string, body: unknown): Promise<unknown> {
  return ask(path, {
    method: "POST",
    headers: { "Content-Type": "application/json" },
    body: JSON.stringify(body),
  });
}

// All pages of a list. pageSize of the API is at most 1000.
async function askPages<Page extends { nextPageToken?: string }>(path: string, query: Record<string, string> = {}) {
  const pages: Page[] = [];
  const tokens = new Set<string>();
  let token = "";
  do {
    if (tokens.has(token)) throw new ApiError("The server sent the same page again.", true);
    tokens.add(token);
    const page = (await ask(`${path}?${new URLSearchParams({ ...query, pageSize: "1000", pageToken: token })}`, {})) as Page;
    pages.push(page);
    token = page.nextPageToken ?? "";
  } while (token !== "");
  return pages;
}

// name: "models/M" or "models/M/versions/V", as in messages.
export function pathOf(name: string): string {
  return "/v1/" + name.split("/").map(encodeURIComponent).join("/");
}

export async function listVerdicts(): Promise<Listed[]> {
  const pages = await askPages<Schemas["ListVerdictsResponse"]>("/v1/verdicts");
  return pages.flatMap(({ models = [] }) => models);
}

// The spans of a history. The first one is shown if it has enough buckets, and else the last one.
export const SPANS = [
  { title: "2 days by hour", resolution: "HOUR", seconds: 2 * 86400 },
  { title: "14 days by hour", resolution: "HOUR", seconds: 14 * 86400 },
  { title: "1000 days by day", resolution: "DAY", seconds: 1000 * 86400 },
  { title: "3 hours by minute", resolution: "MINUTE", seconds: 3 * 3600 },
] as const;
const FEW_BUCKETS = 3;

export interface History {
  // Ascending.
  buckets: Bucket[];
  updates: Schemas["ModelUpdate"][];
  // Index in SPANS.
  span: number;
}

// The buckets of the newest `seconds`, and the updates of the declaration.
export async function getBuckets(name: string, resolution: "MINUTE" | "HOUR" | "DAY", seconds: number) {
  const start = new Date(Date.now() - 1000 * seconds).toISOString();
  const pages = await askPages<Schemas["GetHistoryResponse"]>(`${pathOf(name)}/history`, { resolution, startTime: start });
  return { buckets: pages.flatMap(({ buckets = [] }) => buckets), updates: pages.at(-1)?.updates ?? [] };
}

export async function getHistory(name: string, span: number): Promise<History> {
  const { resolution, seconds } = SPANS[span]!;
  return { ...await getBuckets(name, resolution, seconds), span };
}

// read: gives the history of a span.
export async function fittingHistory(read: (span: number) => History | Promise<History>): Promise<History> {
  const first = await read(0);
  if (first.buckets.length >= FEW_BUCKETS) return first;
  const minutes = await read(SPANS.length - 1);
  return minutes.buckets.length > 0 ? minutes : first;
}

export async function getModel(name: string): Promise<Model | undefined> {
  return ((await ask(pathOf(name), {})) as Schemas["GetModelResponse"]).model;
}

// Models with the same kind of predictions as this one, without it.
export async function listOthers(model: Model): Promise<string[]> {
  const kindOf = ({ classes, forecast, labels }: Model) => JSON.stringify([classes?.count, classes?.names,
    forecast?.quantiles, forecast !== undefined, labels !== undefined]);
  const pages = await askPages<Schemas["ListModelsResponse"]>("/v1/models");
  const models = pages.flatMap(({ models: some = [] }) => some);
  return models.filter((one) => one.name !== model.name && kindOf(one) === kindOf(model)).map(({ name }) => name ?? "");
}

// The requests of computations. With the same seed and rows, an answer is the same. classes: those with diagrams besides
// the top label.
export function evaluateBody(classes: number[]) {
  return { replicates: 0, seed: "1", reliabilityClasses: classes };
}
// Of the diagrams alone, which cost little.
export function diagramBody(classes: number[]) {
  return { ...evaluateBody(classes), reliabilityOnly: true };
}
export const SEED_BODY = { seed: "1" };

// The answer of a computation is in a field of the message.
async function compute<Answer>(name: string, method: string, body: object, field: string): Promise<Answer> {
  return ((await post(`${pathOf(name)}:${method}`, body)) as Record<string, Answer>)[field]!;
}

// An evaluation of the newest rows.
export function evaluate(name: string, body: object) {
  return compute<Evaluation>(name, "evaluate", body, "evaluation");
}

export function compare(name: string, baseline: string) {
  return compute<Comparison>(name, "compare", { baseline }, "comparison");
}

export function estimate(name: string) {
  return compute<Estimate>(name, "estimate", SEED_BODY, "result");
}

export function recalibrate(name: string) {
  return compute<Recalibration>(name, "recalibrate", {}, "recalibration");
}

// A label with its diagram.
export async function getLabel(name: string, label: string): Promise<Label> {
  const answer = (await ask(`${pathOf(name)}/calibration?${new URLSearchParams({ labelDiagrams: label })}`, {})) as Calibration;
  return answer.labels?.labels?.find((one) => one.name === label) ?? {};
}

export async function acknowledge(name: string, alarm: string, note: string): Promise<void> {
  await post(`${pathOf(name)}:acknowledge`, { alarmId: alarm, note });
}

export function setErrorLimit(name: string, limit: number): Promise<unknown> {
  return post(`${pathOf(name)}:update`, {
    model: { monitoring: { errorLimit: limit } },
    updateMask: "monitoring.errorLimit",
  });
}
