#include "calibd/core/recalibration.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <random>
#include <utility>
#include <vector>

#include "calibd/core/prediction_batch.h"
#include "statistical/error_streams.h"

namespace calibd::testing {
namespace {

// Rows of `classes` classes whose top label has the confidence Beta(a, 1), scaled to [1 / classes,
// 1], and is right with this probability minus `excess`. The other classes share the rest equally.
class Rows {
 public:
  Rows(double a, std::size_t classes, std::uint64_t seed) : a_(a), classes_(classes), rng_(seed) {}

  void Add(int count, double excess, PredictionSet& set) {
    const double least = 1 / static_cast<double>(classes_);
    for (int i = 0; i < count; ++i) {
      const double c = least + (1 - least) * std::pow(uniform_(rng_), 1 / a_);
      const std::size_t top = Class();
      for (std::size_t k = 0; k < classes_; ++k) {
        set.probabilities.push_back(k == top ? c : (1 - c) / static_cast<double>(classes_ - 1));
      }
      std::size_t label = top;
      if (uniform_(rng_) >= c - excess) {
        while (label == top) label = Class();
      }
      set.labels.push_back(static_cast<std::int32_t>(label));
    }
  }

 private:
  std::size_t Class() { return std::uniform_int_distribution<std::size_t>(0, classes_ - 1)(rng_); }

  double a_;
  std::size_t classes_;
  std::mt19937_64 rng_;
  std::uniform_real_distribution<double> uniform_;
};

struct Change {
  double a;
  std::size_t classes;
  int before_rows;
  double before;
  int after_rows;
  double after;
};

// The binned errors, with the map, of fresh rows after the change. They are estimated from so many
// rows that the noise of the labels adds less than .4 points.
ErrorIntervals ErrorsOfFreshRows(const RecalibrationMap& map, const Change& one,
                                 std::uint64_t seed) {
  PredictionSet fresh{.probabilities = {}, .labels = {}, .class_count = one.classes};
  Rows(one.a, one.classes, seed).Add(100000, one.after, fresh);
  ApplyRecalibration(map, one.classes, fresh.probabilities);
  RunningReliability top_label;
  top_label.Add(fresh.view());
  ReliabilitySums class_1;
  if (one.classes == 2) class_1.AddClass(fresh.view(), 1);
  return *EventIntervals(top_label, class_1, kSingleErrorLevels);
}

// Whether the interval of one of the events ends below the error, or begins above it.
bool IsExceeded(const ErrorIntervals& promised, const ErrorIntervals& fresh) {
  return fresh.top_label.estimate > promised.top_label.upper ||
         (fresh.class_1.has_value() && fresh.class_1->estimate > promised.class_1->upper);
}
bool IsBelow(const ErrorIntervals& promised, const ErrorIntervals& fresh) {
  return fresh.top_label.estimate < promised.top_label.lower ||
         (fresh.class_1.has_value() && fresh.class_1->estimate < promised.class_1->lower);
}

PredictionSet Stream(const Change& one, std::uint64_t seed) {
  PredictionSet set{.probabilities = {}, .labels = {}, .class_count = one.classes};
  Rows rows(one.a, one.classes, seed);
  rows.Add(one.before_rows, one.before, set);
  rows.Add(one.after_rows, one.after, set);
  return set;
}

TEST(RecalibrationAfterAChangeTest, ThePromisedIntervalHoldsTheErrorOfFreshRows) {
  const Change changes[] = {{20, 2, 12000, 0, 2000, .12},
                            {20, 2, 5000, .04, 3000, .12},
                            {20, 3, 3000, 0, 2000, .12},
                            {6, 2, 6000, .10, 2500, 0}};
  constexpr int kEach = 50;
  constexpr int kStreams = kEach * static_cast<int>(std::size(changes));
  int dated = 0;
  int wrong = 0;
  int whole_exceeded = 0;
  std::uint64_t seed = 1;
  for (const Change& one : changes) {
    for (int i = 0; i < kEach; ++i, ++seed) {
      const PredictionSet set = Stream(one, seed);
      const PredictionBatch rows = set.view();
      const auto change = FindChangeBeforeMap(DeviationsOf(rows), 1);
      ASSERT_TRUE(change.ok()) << change.status();
      if (!change->has_value()) continue;
      ++dated;
      const auto first = static_cast<std::size_t>((*change)->change.from);
      const auto advice = AdviseRecalibration(rows.rows(first, rows.size() - first),
                                              RecalibrationSplit::kAlternating);
      ASSERT_TRUE(advice.ok());
      const ErrorIntervals fresh = ErrorsOfFreshRows(advice->map, one, 1000 + seed);
      wrong += IsExceeded(advice->error_after, fresh) || IsBelow(advice->error_after, fresh);
      // All rows, most of which came before the change.
      if (&one != std::begin(changes) || i >= 4) continue;
      const auto whole = AdviseRecalibration(rows, RecalibrationSplit::kHalves);
      whole_exceeded +=
          IsExceeded(whole->error_after, ErrorsOfFreshRows(whole->map, one, 1000 + seed));
    }
  }
  RecordProperty("dated", dated);
  RecordProperty("wrong", wrong);
  RecordProperty("whole_exceeded", whole_exceeded);
  EXPECT_GE(dated, .95 * kStreams);
  // Each interval is wrong with a probability of at most .05.
  EXPECT_LE(wrong, .05 * dated);
  EXPECT_EQ(whole_exceeded, 4);
}

}  // namespace
}  // namespace calibd::testing
