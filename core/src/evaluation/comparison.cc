#include "calibd/core/comparison.h"

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <vector>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "calibd/core/binary_predictions.h"
#include "calibd/core/confidence_sequence.h"
#include "calibd/core/error_interval.h"
#include "calibd/core/status_macros.h"

namespace calibd {
namespace {

constexpr double kBrierBound = 2;
const double kLogLossBound = -std::log(kComparedLogLossFloor);
// The shares of the levels as in kSingleErrorLevels, for one of two intervals.
constexpr ErrorLevels kBinnedErrorLevels{.bins = 0.375 * kComparisonLevel,
                                         .gap = 0.125 * kComparisonLevel};

struct ObservationScores {
  double log_loss;
  double brier;
};

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

// Adds the top label of a prediction to the sums.
ObservationScores ScoreRow(std::span<const double> g, std::int32_t label,
                           ReliabilitySums& top_label) {
  const auto y = static_cast<std::size_t>(label);
  double brier = 0;
  for (std::size_t k = 0; k < g.size(); ++k) {
    const double residual = g[k] - (k == y ? 1 : 0);
    brier += residual * residual;
  }
  const std::size_t predicted = PredictedClass(g);
  // The sum of a row may exceed 1 by the tolerance, and so may a probability.
  top_label.Add(std::min(1.0, g[predicted]), predicted == y);
  // Rounding may exceed the bound that the intervals rely on.
  return {.log_loss = -std::log(std::clamp(g[y], kComparedLogLossFloor, 1.0)),
          .brier = std::min(kBrierBound, brier)};
}

ScoredRows ScoreRows(const PredictionBatch& batch) {
  ScoredRows rows;
  rows.log_loss.reserve(batch.size());
  rows.brier.reserve(batch.size());
  for (std::size_t i = 0; i < batch.size(); ++i) {
    const ObservationScores scores = ScoreRow(batch.row(i), batch.labels[i], rows.top_label);
    rows.log_loss.push_back(scores.log_loss);
    rows.brier.push_back(scores.brier);
  }
  return rows;
}

double MeanScore(const std::vector<double>& values) {
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

void AddScores(double model, double baseline, RunningComparison::Score& score) {
  score.model.Add(model);
  score.baseline.Add(baseline);
  score.difference.Add(model - baseline);
}

ScoreDifference PairedDifference(const RunningComparison::Score& score, double bound) {
  return {.model = score.model.mean,
          .baseline = score.baseline.mean,
          .difference = score.difference.mean,
          .lower = *LowerConfidenceSequence(score.difference, bound, kComparisonLevel / 2),
          .upper = *UpperConfidenceSequence(score.difference, bound, kComparisonLevel / 2)};
}

ScoreDifference UnpairedDifference(const std::vector<double>& model,
                                   const std::vector<double>& baseline, double bound) {
  const Interval of_model = MeanInterval(model, bound, kComparisonLevel / 2);
  const Interval of_baseline = MeanInterval(baseline, bound, kComparisonLevel / 2);
  const double model_mean = MeanScore(model);
  const double baseline_mean = MeanScore(baseline);
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

void RunningComparison::Add(const PredictionBatch& model,
                            const PredictionBatch& baseline) noexcept {
  for (std::size_t i = 0; i < model.size(); ++i) {
    const std::int32_t label = model.labels[i];
    const ObservationScores of_model = ScoreRow(model.row(i), label, model_top_label);
    const ObservationScores of_baseline = ScoreRow(baseline.row(i), label, baseline_top_label);
    AddScores(of_model.log_loss, of_baseline.log_loss, log_loss);
    AddScores(of_model.brier, of_baseline.brier, brier);
  }
}

std::optional<Comparison> RunningComparison::Read() const noexcept {
  if (brier.model.count == 0) return std::nullopt;
  return Comparison{.log_loss = PairedDifference(log_loss, kLogLossBound),
                    .brier = PairedDifference(brier, kBrierBound),
                    .binned_error = BinnedErrorDifference(model_top_label, baseline_top_label)};
}

absl::StatusOr<Comparison> ComparePaired(const PredictionBatch& model,
                                         const PredictionBatch& baseline) {
  CALIBD_RETURN_IF_ERROR(CheckBatches(model, baseline));
  if (!std::ranges::equal(model.labels, baseline.labels)) {
    return absl::InvalidArgumentError(
        "the labels of the model and the baseline differ, expected the same observations");
  }
  RunningComparison comparison;
  comparison.Add(model, baseline);
  return *comparison.Read();
}

absl::StatusOr<Comparison> CompareUnpaired(const PredictionBatch& model,
                                           const PredictionBatch& baseline) {
  CALIBD_RETURN_IF_ERROR(CheckBatches(model, baseline));
  const ScoredRows of_model = ScoreRows(model);
  const ScoredRows of_baseline = ScoreRows(baseline);
  return Comparison{
      .log_loss = UnpairedDifference(of_model.log_loss, of_baseline.log_loss, kLogLossBound),
      .brier = UnpairedDifference(of_model.brier, of_baseline.brier, kBrierBound),
      .binned_error = BinnedErrorDifference(of_model.top_label, of_baseline.top_label)};
}

}  // namespace calibd
