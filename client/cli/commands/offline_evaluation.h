#ifndef CALIBD_CLIENT_CLI_COMMANDS_OFFLINE_EVALUATION_H_
#define CALIBD_CLIENT_CLI_COMMANDS_OFFLINE_EVALUATION_H_

#include <cstddef>
#include <functional>
#include <stop_token>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "calibd/client/client.h"
#include "calibd/convert/reading.h"
#include "calibd/core/evaluation.h"
#include "calibd/core/prediction_batch.h"
#include "calibd/core/run_control.h"
#include "calibd/v1/calibration_service.pb.h"

namespace calibd::cli {

// Runs a loop on `threads` >= 1 threads, including the caller's.
[[nodiscard]] ParallelLoop LoopOnThreads(unsigned threads);

struct OfflineOptions {
  // The kernel of the canonical lens.
  v1::Kernel kernel;
  v1::BandwidthRule bandwidth;
  // Each size is in [2, 1000].
  std::vector<std::size_t> block_sizes = {2, 10, 100};
  // The request; `model` and `window` are ignored, and an unset seed is 0.
  v1::EvaluateRequest request;
  // The name of the group of each row, or empty: no groups. An empty name: the row has none.
  std::vector<std::string> groups;
  // The criteria by which groups are judged.
  convert::EvaluationCriteria criteria;
  // n x feature_count, row-major; empty: no individual test. It has as many replicates as the
  // lenses, and none without.
  std::vector<double> features;
  std::size_t feature_count = 0;
  // >= 1. The results do not depend on it.
  unsigned threads = 1;
  std::stop_token stop;
  // Called with the completed fraction. May be empty.
  std::function<void(double fraction)> on_progress;
};

// The options of the evaluation. Errors: InvalidArgument naming the option.
[[nodiscard]] absl::StatusOr<calibd::EvaluationOptions> EvaluationOptionsOf(
    const OfflineOptions& options, std::size_t class_count);

// Computes the evaluation that the server would return for these predictions, with the same
// functions. batch: valid, n >= 2. Errors: FailedPrecondition with the number of observations that
// are needed, or with the reason why there is no bandwidth; InvalidArgument (options); Cancelled.
[[nodiscard]] absl::StatusOr<v1::Evaluation> EvaluateOffline(const PredictionBatch& batch,
                                                             const OfflineOptions& options);

// Computes the estimate that the server would return for these predictions, with all estimators,
// but without its text. request: `model` and `window` are ignored, and an unset seed is 0. batch:
// valid. Errors: FailedPrecondition with the number of observations that are needed;
// InvalidArgument (request); Cancelled.
[[nodiscard]] absl::StatusOr<v1::CalibrationErrorEstimate> EstimateOffline(
    const PredictionBatch& batch, const v1::EstimateCalibrationErrorRequest& request,
    unsigned threads, const client::LongCallOptions& call);

}  // namespace calibd::cli

#endif  // CALIBD_CLIENT_CLI_COMMANDS_OFFLINE_EVALUATION_H_
