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
export type Model = Schemas["Model"];

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
  const text = await response.text();
  if (response.ok) return JSON.parse(text);
  try {
    throw new ApiError(String(JSON.parse(text).error.message), true);
  } catch (error) {
    throw error instanceof ApiError ? error : new ApiError(text, true);
  }
}

function post(path: string, body: unknown): Promise<unknown> {
  return ask(path, {
    method: "POST",
    headers: { "Content-Type": "application/json" },
    body: JSON.stringify(body),
  });
}

// name: "models/M" or "models/M/versions/V", as in messages.
export function pathOf(name: string): string {
  return "/v1/" + name.split("/").map(encodeURIComponent).join("/");
}

// All models. pageSize of the API is at most 1000.
export async function listVerdicts(): Promise<Listed[]> {
  const models: Listed[] = [];
  let token = "";
  do {
    const query = new URLSearchParams({ pageSize: "1000", pageToken: token });
    const page = (await ask(`/v1/verdicts?${query}`, {})) as Schemas["ListVerdictsResponse"];
    models.push(...(page.models ?? []));
    token = page.nextPageToken ?? "";
  } while (token !== "");
  return models;
}

export type Resolution = "MINUTE" | "HOUR" | "DAY";

// The buckets of the newest `seconds`, ascending, and the updates of the declaration.
export async function getHistory(name: string, resolution: Resolution, seconds: number, pageSize = 1000) {
  const start = new Date(Date.now() - 1000 * seconds).toISOString();
  const buckets: Bucket[] = [];
  let token = "";
  let updates: Schemas["ModelUpdate"][] = [];
  do {
    const query = new URLSearchParams({ resolution, startTime: start, pageSize: String(pageSize), pageToken: token });
    const page = (await ask(`${pathOf(name)}/history?${query}`, {})) as Schemas["GetHistoryResponse"];
    buckets.push(...(page.buckets ?? []));
    updates = page.updates ?? [];
    token = page.nextPageToken ?? "";
  } while (token !== "");
  return { buckets, updates };
}

export async function getModel(name: string): Promise<Model | undefined> {
  return ((await ask(pathOf(name), {})) as Schemas["GetModelResponse"]).model;
}

// The diagrams of the newest rows: of the top label, and of a class if one is given.
export async function getDiagrams(name: string, classes: number[]): Promise<Diagram[]> {
  const answer = (await post(`${pathOf(name)}:evaluate`, {
    replicates: 0,
    reliabilityClasses: classes,
  })) as Schemas["EvaluateResponse"];
  return answer.evaluation?.reliability ?? [];
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
