#ifndef CALIBD_SERVER_INGEST_MATURING_PREDICTIONS_H_
#define CALIBD_SERVER_INGEST_MATURING_PREDICTIONS_H_

#include <cstdint>
#include <functional>
#include <memory>
#include <vector>

#include "absl/status/status.h"
#include "server/ingest/log_clock.h"
#include "server/ingest/logged_batch.h"
#include "server/state/model.h"
#include "server/state/prediction_tracker.h"
#include "server/store/store.h"

namespace calibd::server {

// Predictions on their way from the log to their model's state.
struct MaturingPredictions {
  std::shared_ptr<Model> model;
  std::function<void(bool)> done;

  PredictionTracker::Matured matured;
  PredictionTracker::Unneeded unneeded;
  LoggedBatch logged;
  std::int64_t log_id = 0;
  std::int64_t time_us = 0;

  // Has predictions mature that are due, and releases what is not needed any more, as many as are
  // worth one transaction. On the storage thread.
  [[nodiscard]] absl::Status Write(Store& store, const LogClock& clock);

 private:
  [[nodiscard]] absl::Status WriteMatured(Store& store, const LogClock& clock);
  // Adds those with a label to the row, and of the others the classes.
  void Take(const LoggedBatch& predictions, const std::vector<std::int32_t>& labels);
};

}  // namespace calibd::server

#endif  // CALIBD_SERVER_INGEST_MATURING_PREDICTIONS_H_
