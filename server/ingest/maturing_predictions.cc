#include "server/ingest/maturing_predictions.h"

#include <algorithm>
#include <cstddef>
#include <optional>
#include <span>
#include <string>
#include <utility>

#include "absl/status/statusor.h"
#include "absl/strings/str_cat.h"
#include "server/errors.h"
#include "server/failpoint.h"

namespace calibd::server {

absl::Status MaturingPredictions::Write(Store& store, const LogClock& clock) {
  // Of one transaction.
  constexpr std::size_t kMostValues = std::size_t{1} << 17;
  constexpr std::size_t kMostReleased = 1024;
  if (model->deleted()) {
    return absl::OkStatus();
  }
  PredictionTracker& tracker = *model->tracker();
  const std::size_t m = model->declaration().class_count;
  logged.elapsed = clock.elapsed();
  matured = tracker.Mature(logged.elapsed, std::max<std::size_t>(1, kMostValues / m));
  absl::Status status;
  if (!matured.runs.empty()) {
    status = WriteMatured(store, clock);
  }
  if (status.ok()) {
    unneeded = tracker.FindUnneeded(logged.elapsed, kMostReleased);
    store.ReleaseBatches(unneeded.log_ids);
  }
  return status;
}

absl::Status MaturingPredictions::WriteMatured(Store& store, const LogClock& clock) {
  logged.kind = LoggedBatch::Kind::kMatured;
  logged.through_log_id = matured.runs.back().log_id;
  const std::size_t m = model->declaration().class_count;
  logged.batch.class_count = m;
  for (const PredictionTracker::Matured::Run& run : matured.runs) {
    const absl::StatusOr<std::string> data = store.ReadBatch(run.log_id);
    if (!data.ok()) {
      return data.status();
    }
    const absl::StatusOr<LoggedBatch> predictions = DecodeLogged(*data, m);
    if (!predictions.ok()) {
      return predictions.status();
    }
    if (predictions->batch.ids.size() != run.labels.size()) {
      return MakeError(
          absl::StatusCode::kDataLoss, "STORE_DAMAGED",
          absl::StrCat("batch ", run.log_id, " of the log holds ", predictions->batch.ids.size(),
                       " predictions, expected ", run.labels.size()));
    }
    Take(*predictions, run.labels);
  }
  time_us = clock.wall_us();
  std::string encoded = EncodeLogged(logged, std::nullopt);
  AppendElapsed(logged.elapsed, encoded);
  log_id = store.AppendBatch(model->id(), time_us, std::move(encoded));
  Failpoint("maturity");
  return absl::OkStatus();
}

void MaturingPredictions::Take(const LoggedBatch& predictions,
                               const std::vector<std::int32_t>& labels) {
  const std::size_t m = predictions.batch.class_count;
  for (std::size_t i = 0; i < labels.size(); ++i) {
    if (labels[i] == PredictionTracker::kNoLabel) {
      logged.missing_predicted_classes.push_back(predictions.predicted_classes[i]);
      continue;
    }
    const std::span<const double> row(predictions.batch.probabilities.data() + i * m, m);
    logged.batch.probabilities.insert(logged.batch.probabilities.end(), row.begin(), row.end());
    logged.batch.labels.push_back(labels[i]);
    if (!model->declaration().monitoring.group_tag.empty()) {
      logged.batch.group_values.push_back(predictions.batch.groups()[i]);
    }
  }
}

}  // namespace calibd::server
