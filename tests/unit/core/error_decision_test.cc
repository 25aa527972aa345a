#include "calibd/core/error_decision.h"

#include <gtest/gtest.h>

#include <cmath>
#include <cstdint>
#include <optional>
#include <span>

#include "base/rng.h"

namespace calibd {
namespace {

constexpr ErrorLevels kForeseenLevels{.bins = 0.01875, .gap = 0.00625};
constexpr double kRecentLevel = 0.025;
constexpr double kForeseenLimit = 0.02;

// A stream of one event, with its recent error.
struct WatchedEvent {
  ReliabilitySums sums;
  RecentErrorEvidence recent;

  void Add(double stated, bool happened) {
    const std::size_t bin = sums.Add(stated, happened);
    recent.Add(bin, stated - (happened ? 1 : 0), kForeseenLimit);
  }
};

// Stated probabilities from Beta(20, 1), `gap` too large.
WatchedEvent SharpStream(int rows, double gap, std::uint64_t seed) {
  Rng rng(seed);
  WatchedEvent event;
  for (int i = 0; i < rows; ++i) {
    const double c = std::pow(rng.Uniform(), 0.05);
    event.Add(c, rng.Uniform() < c - gap);
  }
  return event;
}

std::optional<RowsUntilDecided> Foresee(const WatchedEvent& event, std::int64_t least_rows = 100,
                                        double limit = kForeseenLimit) {
  const UndecidedEvent undecided[] = {{event.sums, &event.recent.state()}};
  return ForeseeErrorDecision(undecided, kForeseenLevels, kRecentLevel, limit, least_rows);
}

TEST(ErrorDecisionTest, SaysNothingBefore1000Rows) {
  EXPECT_FALSE(Foresee({}).has_value());
  EXPECT_FALSE(Foresee(SharpStream(999, 0, 1)).has_value());
}

// A calibrated sharp stream is within 2 points after some 4000 rows.
TEST(ErrorDecisionTest, ForeseesThatACalibratedStreamIsWithinTheLimit) {
  const auto rows = Foresee(SharpStream(3000, 0, 2));
  ASSERT_TRUE(rows.has_value());
  EXPECT_GE(rows->lower, 1);
  EXPECT_LT(rows->lower, 1500);
  EXPECT_GT(rows->upper, 800);
  EXPECT_LT(rows->upper, 9000);
}

// One bin with the signed error .03: without noise, .03 n - u(n / 4, log(2 / level)) exceeds the
// limit times n from a row on that is within the range.
TEST(ErrorDecisionTest, HoldsTheRowOfADecisionWithoutNoise) {
  constexpr double kGap = 0.03;
  // The noise is small against a boundary at this level.
  constexpr ErrorLevels kTiny{.bins = 1e-12, .gap = 1e-12};
  const double k = std::log(2 / kTiny.gap);
  double decided = 1000;
  while ((kGap - kForeseenLimit) * decided < MixtureBoundary(decided / 4, k)) ++decided;
  ReliabilitySums sums;
  const int now = static_cast<int>(0.8 * decided);
  for (int i = 0; i < now; ++i) sums.Add(0.5, i % 100 < 47);
  const UndecidedEvent events[] = {{sums}};
  const auto rows = ForeseeErrorDecision(events, kTiny, 0, kForeseenLimit, 100);
  ASSERT_TRUE(rows.has_value());
  EXPECT_LT(static_cast<double>(rows->lower), decided - now);
  EXPECT_GT(static_cast<double>(rows->upper), decided - now);
}

TEST(ErrorDecisionTest, SaysNothingAtTheLimitItself) {
  EXPECT_FALSE(Foresee(SharpStream(8000, 0.02, 3)).has_value());
}

// The first decision comes at the least number of rows.
TEST(ErrorDecisionTest, ADecisionWaitsForTheLeastNumberOfRows) {
  const auto rows = Foresee(SharpStream(6000, 0, 4), 50000);
  ASSERT_TRUE(rows.has_value());
  EXPECT_EQ(rows->lower, 44000);
  EXPECT_EQ(rows->upper, 44000);
}

// The recent error decides before the interval does.
TEST(ErrorDecisionTest, FollowsTheRecentError) {
  const WatchedEvent event = SharpStream(2000, 0.045, 8);
  const UndecidedEvent alone[] = {{event.sums}};
  const auto both = Foresee(event);
  const auto interval = ForeseeErrorDecision(alone, kForeseenLevels, 0, kForeseenLimit, 100);
  ASSERT_TRUE(both.has_value());
  ASSERT_TRUE(interval.has_value());
  EXPECT_LT(both->upper, interval->upper);
}

// One event that is over the limit decides, and the other one does not delay it.
TEST(ErrorDecisionTest, OneOfTwoEventsSuffices) {
  Rng rng(5);
  WatchedEvent top;
  WatchedEvent class_1;
  for (int i = 0; i < 2000; ++i) {
    const double g = 0.5 + 0.5 * rng.Uniform();
    const double stated = i % 2 == 0 ? g : 1 - g;
    // The probability of class 1 is 8 points too large: the errors of the top label cancel.
    const bool happened = rng.Uniform() < stated - 0.08;
    class_1.Add(stated, happened);
    top.Add(g, i % 2 == 0 ? happened : !happened);
  }
  const UndecidedEvent events[] = {{top.sums, &top.recent.state()},
                                   {class_1.sums, &class_1.recent.state()}};
  const ErrorLevels half = kForeseenLevels.SharedBy(2);
  const auto both = ForeseeErrorDecision(events, half, kRecentLevel / 2, kForeseenLimit, 100);
  const auto alone =
      ForeseeErrorDecision(std::span(events).last(1), half, kRecentLevel / 2, kForeseenLimit, 100);
  ASSERT_TRUE(both.has_value());
  ASSERT_TRUE(alone.has_value());
  EXPECT_LE(both->upper, alone->upper);
}

// Probabilities of 0 and 1, bins with a single row, and a recent error that began later than the
// sums.
TEST(ErrorDecisionTest, Edges) {
  WatchedEvent certain;
  for (int i = 0; i < 5000; ++i) certain.Add(i % 2, i % 2 == 1);
  WatchedEvent rare = SharpStream(3000, 0, 6);
  for (const double c : {0.01, 0.1, 0.2, 0.3}) rare.Add(c, true);
  for (const WatchedEvent& event : {certain, rare}) {
    const RecentErrorEvidence::State none;
    const UndecidedEvent events[] = {{event.sums, &none}};
    for (const double limit : {1e-4, 0.001, 0.02, 0.5}) {
      const auto rows = ForeseeErrorDecision(events, kForeseenLevels, kRecentLevel, limit, 1);
      if (!rows.has_value()) continue;
      EXPECT_GE(rows->lower, 1) << limit;
      EXPECT_GE(rows->upper, rows->lower) << limit;
      EXPECT_LE(rows->upper, 39 * event.sums.Total().count) << limit;
    }
  }
  EXPECT_TRUE(Foresee(rare, 1, 0.5).has_value());
}

}  // namespace
}  // namespace calibd
