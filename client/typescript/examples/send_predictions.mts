// Declares a model, sends predictions and a label over HTTP, and prints what calibd answers.
//
//   send_predictions.mjs [HOST:PORT]
import createClient from "openapi-fetch";
import type { components, paths } from "./calibd.js";

const address = process.argv[2] ?? "127.0.0.1:8461";
const client = createClient<paths>({ baseUrl: `http://${address}` });
const path = { model: "weather-typescript" };

// Returns the answer of a call, or throws what the server says about the error.
async function answer<T>(call: Promise<{ data?: T; error?: components["schemas"]["Error"] }>) {
  const { data, error } = await call;
  if (data === undefined) throw new Error(error?.error?.message ?? "calibd sent no answer");
  return data;
}

// A declaration that is repeated returns the model.
await answer(client.POST("/v1/models", {
  body: {
    model: {
      name: `models/${path.model}`, labelGrace: "3600s",
      classes: { count: 3, bandwidth: { fixed: 0.2 } },
    },
  },
}));

// Four predictions, one row each: the probabilities of the three classes. The labels are the true
// classes, counted from 0. A batch that is sent again with its requestId counts once.
const observed = await answer(client.POST("/v1/models/{model}:observe", {
  params: { path },
  body: {
    observations: {
      probabilities: { values: [0.7, 0.2, 0.1, 0.1, 0.8, 0.1, 0.3, 0.3, 0.4, 0.9, 0.1, 0.0] },
      labels: [0, 1, 0, 0],
    },
    requestId: "batch-1",
  },
}));
console.log(`accepted rows: ${observed.acceptedRows}, counted before: ${observed.duplicateRows}`);

// A prediction whose label comes later, by its id. It counts when it is labelGrace old.
await answer(client.POST("/v1/models/{model}:observe", {
  params: { path },
  body: {
    observations: { probabilities: { values: [0.2, 0.5, 0.3] }, predictionIds: ["visit-1"] },
    requestId: "batch-2",
  },
}));
const labelled = await answer(client.POST("/v1/models/{model}:label", {
  params: { path },
  body: { labels: { predictionIds: ["visit-1"], labels: [1] }, requestId: "labels-1" },
}));
console.log(`labels matched: ${labelled.labels?.matched}`);

const calibration = await answer(client.GET("/v1/models/{model}/calibration", { params: { path } }));
for (const estimate of calibration.estimates ?? []) {
  // Absent: no block is complete yet.
  if (estimate.skce === undefined) continue;
  console.log(`SKCE (blocks of ${estimate.blockSize}): ${estimate.skce}`);
}
const history = await answer(client.GET("/v1/models/{model}/history", {
  params: { path, query: { resolution: "MINUTE" } },
}));
console.log(`observations: ${history.total?.observations}, Brier score: ${history.total?.brierScore}`);
