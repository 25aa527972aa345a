// The intervals of a running comparison hold the true differences at all times, for models that
// are off in different ways and for observations that depend on the past.
#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <random>

#include "calibd/core/binned_error.h"
#include "calibd/core/comparison.h"
#include "error_streams.h"

namespace calibd {
namespace {

using testing::ErrorBound;
using testing::TrueError;

constexpr int kComparedStreams = 200;
constexpr int kComparedLength = 1000;
constexpr int kPolls = 10;

// What is known about the label of an observation, and what two models state about it: the
// probabilities of class 1.
struct Compared {
  double truth;
  double model;
  double baseline;
};

enum class ComparedKind { kTimidModel, kBoldModel, kBothOff, kFollowsLabels };
constexpr std::array kComparedKinds{ComparedKind::kTimidModel, ComparedKind::kBoldModel,
                                    ComparedKind::kBothOff, ComparedKind::kFollowsLabels};

// u: uniform in [0, 1). newest: the newest label.
Compared StatedBy(ComparedKind kind, double u, std::int32_t newest) {
  const double truth = 0.02 + 0.96 * u;
  switch (kind) {
    case ComparedKind::kTimidModel:
      return {.truth = truth, .model = 0.7 * truth + 0.15, .baseline = truth};
    case ComparedKind::kBoldModel:
      return {.truth = truth, .model = std::clamp(1.4 * truth - 0.2, 0.0, 1.0), .baseline = truth};
    case ComparedKind::kBothOff:
      return {.truth = truth, .model = truth * truth, .baseline = std::sqrt(truth)};
    case ComparedKind::kFollowsLabels:
      return newest == 1 ? Compared{.truth = truth, .model = truth, .baseline = 0.5}
                         : Compared{.truth = truth, .model = 0.9 * truth, .baseline = truth};
  }
  return {};
}

// E[score of the model - score of the baseline] for the true probability.
template <typename Loss>
double ExpectedDifference(const Compared& row, const Loss& loss) {
  return row.truth * (loss(row.model) - loss(row.baseline)) +
         (1 - row.truth) * (loss(1 - row.model) - loss(1 - row.baseline));
}

void AddTopLabel(double stated, double truth, TrueError& error) {
  const double top = std::max(stated, 1 - stated);
  // Class 0 wins ties.
  const double top_truth = stated > 1 - stated ? truth : 1 - truth;
  error.Add(UniformBinIndex(top, kReliabilityBinCount) - 1, top - top_truth);
}

// Which of the three intervals missed the truth at some time, and which excluded 0 at the end.
struct Misses {
  bool log_loss = false;
  bool brier = false;
  bool binned_error = false;
  bool decided = false;
};

Misses Compare(ComparedKind kind, std::uint64_t seed) {
  std::mt19937_64 random(seed);
  std::uniform_real_distribution<double> uniform;
  RunningComparison running;
  Misses misses;
  double log_loss = 0;
  double brier = 0;
  TrueError model_error;
  TrueError baseline_error;
  std::int32_t label = 0;
  for (int n = 1; n <= kComparedLength; ++n) {
    const Compared row = StatedBy(kind, uniform(random), label);
    label = uniform(random) < row.truth ? 1 : 0;
    const auto prediction = [label](double class_1) {
      PredictionSet set;
      set.class_count = 2;
      set.probabilities = {1 - class_1, class_1};
      set.labels = {label};
      return set;
    };
    const PredictionSet model = prediction(row.model);
    const PredictionSet baseline = prediction(row.baseline);
    running.Add(model.view(), baseline.view());
    log_loss += ExpectedDifference(
        row, [](double p) { return -std::log(std::max(p, kComparedLogLossFloor)); });
    brier += ExpectedDifference(row, [](double p) { return 2 * (1 - p) * (1 - p); });
    AddTopLabel(row.model, row.truth, model_error);
    AddTopLabel(row.baseline, row.truth, baseline_error);
    if (n % kPolls != 0 && n > kPolls) continue;
    const Comparison read = *running.Read();
    const auto missed = [](const ScoreDifference& score, double truth) {
      return truth < score.lower - 1e-12 || truth > score.upper + 1e-12;
    };
    misses.log_loss |= missed(read.log_loss, log_loss / n);
    misses.brier |= missed(read.brier, brier / n);
    misses.binned_error |= missed(read.binned_error, model_error.error() - baseline_error.error());
    misses.decided = read.log_loss.worse() || read.log_loss.better();
  }
  return misses;
}

TEST(RunningComparisonTest, IntervalsHoldTheTrueDifferencesAtAllTimes) {
  const double most = ErrorBound(kComparisonLevel, kComparedStreams);
  int decided = 0;
  for (const ComparedKind kind : kComparedKinds) {
    SCOPED_TRACE(static_cast<int>(kind));
    int log_loss = 0;
    int brier = 0;
    int binned_error = 0;
    for (int stream = 0; stream < kComparedStreams; ++stream) {
      const Misses misses = Compare(kind, static_cast<std::uint64_t>(stream));
      log_loss += misses.log_loss ? 1 : 0;
      brier += misses.brier ? 1 : 0;
      binned_error += misses.binned_error ? 1 : 0;
      decided += misses.decided ? 1 : 0;
    }
    EXPECT_LE(log_loss, most * kComparedStreams);
    EXPECT_LE(brier, most * kComparedStreams);
    EXPECT_LE(binned_error, most * kComparedStreams);
  }
  // Two of the differences are large enough to be seen, so the intervals are not too wide to miss.
  EXPECT_GE(decided, kComparedStreams);
}

}  // namespace
}  // namespace calibd
