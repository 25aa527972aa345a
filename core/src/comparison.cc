#include "calibd/core/comparison.h"

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <span>
#include <vector>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "calibd/core/binary_predictions.h"
#include "calibd/core/confidence_sequence.h"
#include "calibd/core/error_interval.h"
#include "calibd/core/running_reliability.h"
#include "calibd/core/running_skce.h"
#include "calibd/core/status_macros.h"

namespace calibd {
namespace {

constexpr double kBrierBound = 2;
// The shares of the levels as in kSingleErrorLevels, for one of two intervals.
constexpr ErrorLevels kBinnedErrorLevels{.bins = 0.375 * kComparisonLevel,
                                         .gap = 0.125 * kComparisonLevel};

// The scores of each row, in order.
struct ScoredRows {
  std::vector<double> log_loss;
  std::vector<double> brier;
  ReliabilitySums top_label;
};

struct Interval {
  double lower;
  double upper;
};

ScoredRows ScoreRows(const PredictionBatch& batch) {
  ScoredRows rows;
  rows.log_loss.reserve(batch.size());
  rows.brier.reserve(batch.size());
  for (std::size_t i = 0; i < batch.size(); ++i) {
    const std::span<const double> g = batch.row(i);
    const auto label = static_cast<std::size_t>(batch.labels[i]);
    double brier = 0;
    for (std::size_t k = 0; k < g.size(); ++k) {
      const double residual = g[k] - (k == label ? 1 : 0);
      brier += residual * residual;
    }
    // Rounding may exceed the bounds that the intervals rely on.
    rows.brier.push_back(std::min(kBrierBound, brier));
    rows.log_loss.push_back(-std::log(std::clamp(g[label], kComparedLogLossFloor, 1.0)));
    const std::size_t predicted = PredictedClass(g);
    rows.top_label.Add(g[predicted], predicted == label);
  }
  return rows;
}

double Mean(const std::vector<double>& values) {
  RunningMoments moments;
  for (const double value : values) moments.Add(value);
  return moments.mean;
}

// The interval of the mean of scores in [0, bound] at `alpha`. The confidence sequence is that of
// the deviations from the mean of the earlier scores, which lie in [-bound, bound] and are smaller
// than the scores.
Interval MeanInterval(const std::vector<double>& scores, double bound, double alpha) {
  RunningMoments earlier;
  RunningMoments deviations;
  for (const double score : scores) {
    deviations.Add(score - earlier.mean);
    earlier.Add(score);
  }
  const double predicted = earlier.mean - deviations.mean;
  return {std::max(0.0, predicted + *LowerConfidenceSequence(deviations, bound, alpha / 2)),
          std::min(bound, predicted + *UpperConfidenceSequence(deviations, bound, alpha / 2))};
}

ScoreDifference PairedDifference(const std::vector<double>& model,
                                 const std::vector<double>& baseline, double bound) {
  RunningMoments differences;
  for (std::size_t i = 0; i < model.size(); ++i) differences.Add(model[i] - baseline[i]);
  return {.model = Mean(model),
          .baseline = Mean(baseline),
          .difference = differences.mean,
          .lower = *LowerConfidenceSequence(differences, bound, kComparisonLevel / 2),
          .upper = *UpperConfidenceSequence(differences, bound, kComparisonLevel / 2)};
}

ScoreDifference UnpairedDifference(const std::vector<double>& model,
                                   const std::vector<double>& baseline, double bound) {
  const Interval of_model = MeanInterval(model, bound, kComparisonLevel / 2);
  const Interval of_baseline = MeanInterval(baseline, bound, kComparisonLevel / 2);
  const double model_mean = Mean(model);
  const double baseline_mean = Mean(baseline);
  return {.model = model_mean,
          .baseline = baseline_mean,
          .difference = model_mean - baseline_mean,
          .lower = of_model.lower - of_baseline.upper,
          .upper = of_model.upper - of_baseline.lower};
}

ScoreDifference BinnedErrorDifference(const ReliabilitySums& model,
                                      const ReliabilitySums& baseline) {
  const ErrorInterval of_model = *BinnedErrorInterval(model, kBinnedErrorLevels);
  const ErrorInterval of_baseline = *BinnedErrorInterval(baseline, kBinnedErrorLevels);
  return {.model = of_model.estimate,
          .baseline = of_baseline.estimate,
          .difference = of_model.estimate - of_baseline.estimate,
          .lower = of_model.lower - of_baseline.upper,
          .upper = of_model.upper - of_baseline.lower};
}

template <typename Difference>
Comparison Compare(const PredictionBatch& model, const PredictionBatch& baseline,
                   const Difference& difference) {
  const ScoredRows of_model = ScoreRows(model);
  const ScoredRows of_baseline = ScoreRows(baseline);
  return {.log_loss =
              difference(of_model.log_loss, of_baseline.log_loss, -std::log(kComparedLogLossFloor)),
          .brier = difference(of_model.brier, of_baseline.brier, kBrierBound),
          .binned_error = BinnedErrorDifference(of_model.top_label, of_baseline.top_label)};
}

absl::Status CheckBatches(const PredictionBatch& model, const PredictionBatch& baseline) {
  if (model.class_count != baseline.class_count) {
    return absl::InvalidArgumentError(absl::StrCat("the model has ", model.class_count,
                                                   " classes and the baseline has ",
                                                   baseline.class_count, ", expected the same"));
  }
  if (model.size() < 1 || baseline.size() < 1) {
    return absl::FailedPreconditionError(absl::StrCat("the model has ", model.size(),
                                                      " observations and the baseline has ",
                                                      baseline.size(), ", both need at least 1"));
  }
  return absl::OkStatus();
}

}  // namespace

absl::StatusOr<Comparison> ComparePaired(const PredictionBatch& model,
                                         const PredictionBatch& baseline) {
  CALIBD_RETURN_IF_ERROR(CheckBatches(model, baseline));
  if (!std::ranges::equal(model.labels, baseline.labels)) {
    return absl::InvalidArgumentError(
        "the labels of the model and the baseline differ, expected the same observations");
  }
  return Compare(model, baseline, PairedDifference);
}

absl::StatusOr<Comparison> CompareUnpaired(const PredictionBatch& model,
                                           const PredictionBatch& baseline) {
  CALIBD_RETURN_IF_ERROR(CheckBatches(model, baseline));
  return Compare(model, baseline, UnpairedDifference);
}

}  // namespace calibd
