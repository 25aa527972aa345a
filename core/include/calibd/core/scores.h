#ifndef CALIBD_CORE_SCORES_H_
#define CALIBD_CORE_SCORES_H_

#include <cstddef>

#include "absl/status/statusor.h"
#include "calibd/core/binary_predictions.h"
#include "calibd/core/binned_error.h"
#include "calibd/core/prediction_batch.h"
#include "calibd/core/run_control.h"

namespace calibd {

// Lower bound that the log loss applies to the probability of the label. The loss is therefore at
// most 52 ln 2 = 36.04, and finite for a label with predicted probability 0.
inline constexpr double kLogLossFloor = 0x1p-52;

struct Scores {
  std::size_t n = 0;
  // mean_i sum_k (g_ik - [y_i = k])^2, in [0, 2].
  double brier = 0;
  // -mean_i ln max(g_i[y_i], kLogLossFloor), in nats.
  double log_loss = 0;
  // Share of labels that equal the predicted class (the first of the most probable classes).
  double accuracy = 0;
  // -mean_i sum_k g_ik ln g_ik, in nats, in [0, ln m]: the sharper the predictions,
  // the lower.
  double mean_entropy = 0;
  // mean_i max_k g_ik.
  double mean_confidence = 0;
  // > 0: over-confident; < 0: under-confident.
  double confidence_minus_accuracy = 0;
};

// batch: valid. Errors: FailedPrecondition if n < 1. Cost: O(n m).
[[nodiscard]] absl::StatusOr<Scores> ComputeScores(const PredictionBatch& batch);

// Murphy's decomposition of the Brier score over bins, with two additional terms for the variation
// of predictions within a bin:
//   score = miscalibration - discrimination + uncertainty
//           + within_bin_variance - within_bin_covariance,
// up to rounding. Source: Murphy, J. Appl. Meteorol. 12 (1973) 595, eq. 8;
// Stephenson, Coelho & Jolliffe, Weather Forecast. 23 (2008) 752, eq. 10.
struct MurphyDecomposition {
  double score = 0;
  // sum_b n_b / n |mean prediction of b - frequencies of b|^2, >= 0 ("reliability").
  double miscalibration = 0;
  // sum_b n_b / n |frequencies of b - frequencies|^2, >= 0 ("resolution").
  double discrimination = 0;
  // Score of the constant prediction of the class frequencies, >= 0.
  double uncertainty = 0;
  // Mean squared distance of the predictions from the means of their bins, >= 0.
  double within_bin_variance = 0;
  // Twice the mean product of predictions' and labels' deviations from their bins'
  // means. Signed.
  double within_bin_covariance = 0;
};

// Decomposes the Brier score of all classes over the bins of `partition`, which must be of this
// batch. batch: valid, n >= 1. Cost: O(n m).
[[nodiscard]] MurphyDecomposition DecomposeByBins(const PredictionBatch& batch,
                                                  const Partition& partition);

// Decomposes the scalar Brier score mean (p - outcome)^2, in [0, 1], over uniform bins.
// Errors: InvalidArgument unless bins is in [1, kMaxBinsPerClass]; FailedPrecondition
// if n < 1. Cost: O(n + bins).
[[nodiscard]] absl::StatusOr<MurphyDecomposition> DecomposeByBins(
    const BinaryPredictions& predictions, std::size_t bins);

// The CORP decomposition of the scalar Brier score mean (p - outcome)^2, in [0, 1]:
// score = miscalibration - discrimination + uncertainty up to rounding, with the
// predictions recalibrated by isotonic regression instead of bins. Source:
// Dimitriadis, Gneiting & Jordan, PNAS 118 (2021) e2016191118, eq. 1 and Theorem 1.
struct CorpDecomposition {
  double score = 0;
  // score - score of the recalibrated predictions, >= 0.
  double miscalibration = 0;
  // uncertainty - score of the recalibrated predictions, >= 0.
  double discrimination = 0;
  // Score of a constant prediction of the frequency f: f (1 - f), in [0, 1/4].
  double uncertainty = 0;
};

// Errors: FailedPrecondition if n < 1. Cost: O(n log n).
[[nodiscard]] absl::StatusOr<CorpDecomposition> DecomposeCorp(const BinaryPredictions& predictions);

// The sum of the decompositions of the classes; its score is the Brier score of the batch.
// batch: valid. Errors: FailedPrecondition if n < 1; Cancelled. Cost: O(m n log n).
[[nodiscard]] absl::StatusOr<CorpDecomposition> DecomposeCorpClassWise(
    const PredictionBatch& batch, const RunControl& control = {});

}  // namespace calibd

#endif  // CALIBD_CORE_SCORES_H_
