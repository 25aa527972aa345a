#ifndef CALIBD_CLIENT_OFFLINE_CLASSES_H_
#define CALIBD_CLIENT_OFFLINE_CLASSES_H_

#include <cstddef>
#include <span>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "calibd/convert/reading.h"
#include "calibd/core/evaluation.h"
#include "calibd/core/prediction_batch.h"
#include "calibd/core/run_control.h"
#include "calibd/v1/calibration_service.pb.h"
#include "calibd/v1/recalibration.pb.h"

namespace calibd::offline {

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
  // In the order of the classes; empty if they have none.
  std::vector<std::string> class_names;
  // The criteria by which groups are judged.
  convert::EvaluationCriteria criteria;
  // n x feature_count, row-major; empty: no individual test. It has as many replicates as the
  // lenses, and none without.
  std::vector<double> features;
  std::size_t feature_count = 0;
  // The number that the provenance states, those of the parallel loops, >= 1. The results do not
  // depend on it.
  unsigned threads = 1;
};

// The options of the evaluation. Errors: InvalidArgument naming the option.
[[nodiscard]] absl::StatusOr<calibd::EvaluationOptions> EvaluationOptionsOf(
    const OfflineOptions& options, std::size_t class_count);

// Computes the evaluation that the server would return for these predictions, with the same
// functions. batch: valid, n >= 2. Errors: FailedPrecondition with the number of observations that
// are needed, or with the reason why there is no bandwidth; InvalidArgument (options); Cancelled.
[[nodiscard]] absl::StatusOr<v1::Evaluation> EvaluateOffline(const PredictionBatch& batch,
                                                             const OfflineOptions& options,
                                                             const RunControl& control);

// Computes the estimate that the server would return for these predictions, with all estimators.
// class_names: in the order of the classes; empty if they have none. request: `model` and `window`
// are ignored, and an unset seed is 0. batch: valid. Errors: FailedPrecondition with the number of
// observations that are needed; InvalidArgument (request); Cancelled. threads: the number that the
// provenance states, those of control.parallel_for.
[[nodiscard]] absl::StatusOr<v1::CalibrationErrorEstimate> EstimateOffline(
    const PredictionBatch& batch, std::span<const std::string> class_names,
    const v1::EstimateCalibrationErrorRequest& request, unsigned threads,
    const RunControl& control);

// Computes the advice that the server would return for these predictions. batch: valid, the oldest
// observation first. class_names: as for EstimateOffline. Errors: FailedPrecondition with the
// number of observations that are needed; Cancelled.
[[nodiscard]] absl::StatusOr<v1::Recalibration> RecalibrateOffline(
    const PredictionBatch& batch, std::span<const std::string> class_names,
    const RunControl& control);

}  // namespace calibd::offline

#endif  // CALIBD_CLIENT_OFFLINE_CLASSES_H_
