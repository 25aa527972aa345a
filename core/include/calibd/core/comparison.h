#ifndef CALIBD_CORE_COMPARISON_H_
#define CALIBD_CORE_COMPARISON_H_

#include <cstddef>
#include <optional>

#include "absl/status/statusor.h"
#include "calibd/core/moments.h"
#include "calibd/core/prediction_batch.h"
#include "calibd/core/running_reliability.h"

namespace calibd {

// The scores of two models and their differences, with confidence sequences: for observations that
// are numbered from a fixed start, the interval of each difference holds at all n at once with a
// probability of at least 1 - kComparisonLevel. The newest rows of a moving window do not have a
// fixed start: their interval holds at one look. Each of the three differences has an interval of
// its own; all three hold together with a probability of at least 1 - 3 kComparisonLevel.

inline constexpr double kComparisonLevel = 0.05;
// Lower bound that the compared log loss applies to the probability of the label. It bounds the
// difference by ln 1000 = 6.91; with the floor of scores.h, intervals would be five times as wide
// for few observations.
inline constexpr double kComparedLogLossFloor = 1e-3;

// The means of one score for two models, and an interval of the difference of what they estimate:
// the averages over i <= n of the score's expectation given the observations before i.
struct ScoreDifference {
  double model = 0;
  double baseline = 0;
  // model - baseline; negative if the model is better.
  double difference = 0;
  double lower = 0;
  double upper = 0;

  // The interval excludes 0.
  [[nodiscard]] bool better() const noexcept { return upper < 0; }
  [[nodiscard]] bool worse() const noexcept { return lower > 0; }
};

struct Comparison {
  // In nats, with kComparedLogLossFloor; in [-ln 1000, ln 1000].
  ScoreDifference log_loss;
  // In [-2, 2].
  ScoreDifference brier;
  // The binned error of the top label, see error_interval.h; in [-1, 1]. The interval is the
  // difference of the two models' intervals, each at half the level. It is conservative, because
  // it does not use that the observations are the same.
  ScoreDifference binned_error;
};

// The sums from which two models are compared by the same observations. All sums are public, so
// that they can be saved and restored.
struct RunningComparison {
  // One score of both models, and their difference for each observation.
  struct Score {
    RunningMoments model;
    RunningMoments baseline;
    RunningMoments difference;

    friend bool operator==(const Score&, const Score&) = default;
  };
  Score log_loss;
  Score brier;
  ReliabilitySums model_top_label;
  ReliabilitySums baseline_top_label;

  // model: valid. baseline: a valid batch with as many rows and classes; its labels are not used.
  // The result has the same bits however a sequence is split into calls. Cost: O(m) an observation.
  void Add(const PredictionBatch& model, const PredictionBatch& baseline) noexcept;
  // Unset without observations. Cost: O(1), some ten microseconds.
  [[nodiscard]] std::optional<Comparison> Read() const noexcept;

  friend bool operator==(const RunningComparison&, const RunningComparison&) = default;
};

// Compares two models by the same observations in the same order: row i of both batches is
// observation i. The result is that of a RunningComparison. Its differences vary less than the
// scores, so the intervals are narrower than those of CompareUnpaired. Source of the intervals:
// UpperConfidenceSequence, for differences of bounded scores as in Choe & Ramdas, Oper. Res. 72
// (2024) 1368.
//
// model, baseline: valid. Errors: InvalidArgument unless both have the same number of classes and
// the same labels; FailedPrecondition if n < 1. Cost: O(n m).
[[nodiscard]] absl::StatusOr<Comparison> ComparePaired(const PredictionBatch& model,
                                                       const PredictionBatch& baseline);

// Compares two models by different observations, each in its own order; the two sequences may
// depend on each other. A difference may also come from the observations.
//
// model, baseline: valid. Errors: InvalidArgument unless both have the same number of classes;
// FailedPrecondition if either has no observation. Cost: O(n m).
[[nodiscard]] absl::StatusOr<Comparison> CompareUnpaired(const PredictionBatch& model,
                                                         const PredictionBatch& baseline);

}  // namespace calibd

#endif  // CALIBD_CORE_COMPARISON_H_
