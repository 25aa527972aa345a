#ifndef CALIBD_CLI_OFFLINE_EVALUATION_H_
#define CALIBD_CLI_OFFLINE_EVALUATION_H_

#include <cstdint>
#include <functional>
#include <optional>
#include <stop_token>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "calibd/core/binned_error.h"
#include "calibd/core/prediction_batch.h"
#include "calibd/core/scores.h"
#include "calibd/v1/calibration_service.pb.h"

namespace calibd::cli {

struct EvaluationOptions {
  // Unset: the median of all pairwise distances.
  std::optional<double> bandwidth;
  // Each in [2, 1000].
  std::vector<std::int32_t> block_sizes = {2, 10, 100};
  // Beside the canonical lens.
  std::vector<v1::Lens> lenses;
  // Of the bootstrap test, in [99, 100000]; 0: no bootstrap test.
  std::int32_t replicates = 1000;
  std::uint64_t seed = 0;
  // >= 1. No result depends on it.
  unsigned threads = 1;
  std::stop_token stop;
  // Told the name of the stage and the fraction of it that is done.
  std::function<void(const std::string& stage, double fraction)> on_progress;
};

struct Evaluation {
  std::vector<v1::BlockEstimate> estimates;
  // With replicates 0 only the estimates and their bounds.
  v1::QuadraticTestResult quadratic;
  // One for each of the options' lenses.
  std::vector<v1::QuadraticTestResult> lenses;
  Scores scores;
  // Over 15 uniform bins of the largest probability.
  BinnedError top_label_error;
  // The mean over classes, each over 15 uniform bins.
  BinnedError class_wise_error;
  // Of whether the predicted class was right, by isotonic regression.
  CorpDecomposition top_label_brier;
};

// Everything that the server would say of these predictions, computed here by the
// same functions, in the server's own words.
// batch: valid, n >= 2.
// Errors: FailedPrecondition naming how many observations are needed, or why there
// is no bandwidth; InvalidArgument (options); Cancelled.
[[nodiscard]] absl::StatusOr<Evaluation> EvaluateOffline(const PredictionBatch& batch,
                                                         const EvaluationOptions& options);

}  // namespace calibd::cli

#endif  // CALIBD_CLI_OFFLINE_EVALUATION_H_
