#include "server/kinds/classes/class_measure.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <chrono>
#include <cmath>
#include <memory>
#include <optional>
#include <random>
#include <vector>

#include "calibd/core/newest_stretch.h"

namespace calibd::server {
namespace {

using ::testing::ElementsAre;
using ::testing::Le;

constexpr double kAlpha = 0.05;
constexpr double kLimit = 0.02;
constexpr std::int64_t kLeast = 100;

// Rows whose probabilities are `shift` too large for the top label: frequency = probability -
// shift.
PredictionSet OverConfident(std::size_t class_count, std::size_t n, double shift,
                            std::uint64_t seed) {
  std::mt19937_64 rng(seed);
  std::uniform_real_distribution<double> unit(0, 1);
  PredictionSet set;
  set.class_count = class_count;
  for (std::size_t i = 0; i < n; ++i) {
    const double c = 0.7 + 0.25 * unit(rng);
    for (std::size_t k = 0; k < class_count; ++k) {
      set.probabilities.push_back(k == 0 ? c : (1 - c) / static_cast<double>(class_count - 1));
    }
    set.labels.push_back(unit(rng) < c - shift ? 0 : 1);
  }
  return set;
}

PredictionSet Joined(PredictionSet first, const PredictionSet& second) {
  first.probabilities.insert(first.probabilities.end(), second.probabilities.begin(),
                             second.probabilities.end());
  first.labels.insert(first.labels.end(), second.labels.begin(), second.labels.end());
  return first;
}

ClassErrorWatch WatchOf(const ErrorBudget& budget, std::int64_t min_observations,
                        std::int64_t first_observation = 1) {
  return ClassErrorWatch(ClassMeasure(budget),
                         {.error_limit = kLimit, .min_observations = min_observations},
                         first_observation);
}

ClassErrorWatch ModelWatch(std::size_t class_count) {
  return WatchOf(ErrorBudget::OfModel(kAlpha, class_count), kLeast);
}

void Add(ClassErrorWatch& watch, const PredictionSet& set, std::size_t first, std::size_t end) {
  for (std::size_t i = first; i < end; ++i) {
    watch.Add({.batch = set.view(), .index = i}, static_cast<std::int64_t>(i) + 1);
  }
}

const MeasuredClassError& Measured(const ErrorSnapshot& snapshot) {
  return *snapshot.As<MeasuredClassError>();
}

double RecentLog10EValue(const ErrorSnapshot& snapshot) {
  return *Measured(snapshot).recent_log10_e_value;
}

double RecentThreshold(const ErrorSnapshot& snapshot) {
  return Measured(snapshot).recent_threshold;
}

store::v1::ErrorState Saved(const ClassErrorWatch& watch) {
  store::v1::ErrorState state;
  watch.Save(state);
  return state;
}

// The first observation at which any interval exceeds the limit, by looking at each one.
std::optional<std::int64_t> FirstOver(const PredictionSet& set, const ErrorBudget& budget) {
  ReliabilitySums top;
  ReliabilitySums one;
  for (std::size_t i = 0; i < set.labels.size(); ++i) {
    const auto g = set.view().row(i);
    const auto best = static_cast<std::size_t>(std::max_element(g.begin(), g.end()) - g.begin());
    top.Add(g[best], set.labels[i] == static_cast<std::int32_t>(best));
    one.Add(g[1], set.labels[i] == 1);
    if (static_cast<std::int64_t>(i) + 1 < kLeast) continue;
    if (BinnedErrorInterval(top, budget.levels)->lower > kLimit ||
        (budget.series > 1 && BinnedErrorInterval(one, budget.levels)->lower > kLimit)) {
      return static_cast<std::int64_t>(i) + 1;
    }
  }
  return std::nullopt;
}

TEST(ClassMeasureTest, BudgetsSumToTheLevel) {
  for (const std::size_t m : {2U, 3U}) {
    const ErrorBudget model = ErrorBudget::OfModel(kAlpha, m);
    const auto series = static_cast<double>(model.series);
    EXPECT_DOUBLE_EQ(series * (model.levels.total() + model.recent), kAlpha);
    EXPECT_DOUBLE_EQ(model.levels.bins * series, kAlpha * 3 / 8);
    const ErrorBudget group = ErrorBudget::OfGroup(kAlpha, 5, m);
    EXPECT_DOUBLE_EQ(5 * series * group.levels.total(), kAlpha);
    EXPECT_EQ(group.recent, 0);
  }
}

// The watch computes an interval only when the answer can have changed. A group has no recent
// error, which could come first.
TEST(ClassMeasureTest, CrossesAtTheSameObservationAsALookAtEachOne) {
  for (const std::size_t m : {2U, 3U}) {
    const ErrorBudget budget = ErrorBudget::OfGroup(kAlpha, 1, m);
    int crossed = 0;
    for (std::uint64_t seed = 0; seed < 12; ++seed) {
      // Errors near the limit come close to the decision often.
      const double shift = 0.02 + 0.01 * static_cast<double>(seed);
      const PredictionSet set = OverConfident(m, 4000, shift, seed);
      ClassErrorWatch watch = WatchOf(budget, kLeast);
      Add(watch, set, 0, set.labels.size());
      const std::optional<LimitCrossing> crossing = watch.TakeCrossing();
      const std::optional<std::int64_t> expected = FirstOver(set, budget);
      ASSERT_EQ(crossing.has_value(), expected.has_value()) << seed;
      if (!crossing.has_value()) continue;
      ++crossed;
      EXPECT_EQ(crossing->observation, *expected) << seed;
      EXPECT_GT(crossing->interval->lower, kLimit);
      EXPECT_FALSE(crossing->recent);
      EXPECT_EQ(crossing->first_observation, 1);
    }
    EXPECT_GE(crossed, 6);
  }
}

TEST(ClassMeasureTest, RecentErrorCrossesSoonAfterAChange) {
  const PredictionSet set = Joined(OverConfident(3, 30000, 0, 1), OverConfident(3, 6000, 0.1, 2));
  ClassErrorWatch watch = ModelWatch(3);
  Add(watch, set, 0, 30000);
  EXPECT_FALSE(watch.TakeCrossing().has_value());
  EXPECT_EQ(watch.Snapshot().Read().status, LimitStatus::kWithinLimit);
  Add(watch, set, 30000, set.labels.size());
  const ErrorSnapshot snapshot = watch.Snapshot();
  const std::optional<LimitCrossing> crossing = watch.TakeCrossing();
  ASSERT_TRUE(crossing.has_value());
  EXPECT_TRUE(crossing->recent);
  EXPECT_TRUE(snapshot.Read().is_recent);
  EXPECT_EQ(snapshot.Read().status, LimitStatus::kOverLimit);
  EXPECT_LT(crossing->observation, 32000);
  // Marks are 1024 observations apart.
  EXPECT_NEAR(static_cast<double>(crossing->first_observation), 30001, 1100);
  EXPECT_FALSE(crossing->interval.has_value()) << "of a stretch that was chosen in hindsight";
  EXPECT_GT(RecentLog10EValue(snapshot), RecentThreshold(snapshot));
}

TEST(ClassMeasureTest, AnswersNothingBeforeTheMinimum) {
  const PredictionSet set = OverConfident(3, 300, 0.6, 3);
  ClassErrorWatch watch = WatchOf(ErrorBudget::OfModel(kAlpha, 3), 250);
  Add(watch, set, 0, 249);
  EXPECT_GT(watch.Snapshot().Read().now[0]->lower, kLimit);
  EXPECT_EQ(watch.Snapshot().Read().status, LimitStatus::kUndecided);
  EXPECT_FALSE(watch.TakeCrossing().has_value());
  Add(watch, set, 249, 250);
  const std::optional<LimitCrossing> crossing = watch.TakeCrossing();
  ASSERT_TRUE(crossing.has_value());
  EXPECT_EQ(crossing->observation, 250);
  EXPECT_FALSE(watch.TakeCrossing().has_value());
}

TEST(ClassMeasureTest, TheSameErrorDoesNotCrossAgainButALargerOneDoes) {
  const PredictionSet same = OverConfident(3, 60000, 0.08, 4);
  ClassErrorWatch watch = ModelWatch(3);
  Add(watch, same, 0, 5000);
  ASSERT_TRUE(watch.TakeCrossing().has_value());
  watch.Acknowledge(5000);
  EXPECT_EQ(watch.count(), 0);
  EXPECT_EQ(watch.Snapshot().Read().status, LimitStatus::kOverLimit);
  EXPECT_GT(watch.Snapshot().limit, 0.08);
  Add(watch, same, 5000, 40000);
  EXPECT_FALSE(watch.TakeCrossing().has_value());
  const ErrorSnapshot acknowledged = watch.Snapshot();
  EXPECT_TRUE(acknowledged.acknowledged);
  EXPECT_FALSE(acknowledged.over);
  EXPECT_EQ(acknowledged.Read().status, LimitStatus::kOverLimit);
  EXPECT_EQ(acknowledged.first_observation, 5001);
  EXPECT_EQ(acknowledged.start_observation, 1);
  EXPECT_EQ(Measured(acknowledged).since_start.count(), 40000);

  ClassErrorWatch larger = watch;
  Add(larger, OverConfident(3, 60000, 0.3, 5), 40000, 60000);
  EXPECT_TRUE(larger.TakeCrossing().has_value());

  // After it was within the limit, the limit is error_limit again.
  const PredictionSet mended =
      Joined(OverConfident(3, 40000, 0, 6),
             Joined(OverConfident(3, 200000, 0, 7), OverConfident(3, 60000, 0.08, 8)));
  Add(watch, mended, 40000, 240000);
  EXPECT_FALSE(watch.TakeCrossing().has_value());
  EXPECT_EQ(watch.Snapshot().Read().status, LimitStatus::kWithinLimit);
  EXPECT_EQ(watch.Snapshot().limit, kLimit);
  Add(watch, mended, 240000, 300000);
  EXPECT_TRUE(watch.TakeCrossing().has_value());
}

TEST(ClassMeasureTest, ANewLimitIsDecidedAtOnceAndRestartsNothing) {
  ClassErrorWatch watch = ModelWatch(3);
  Add(watch, OverConfident(3, 20000, 0, 9), 0, 20000);
  EXPECT_EQ(watch.Snapshot().Read().status, LimitStatus::kWithinLimit);
  watch.SetLimit(1e-4, 20000);
  EXPECT_EQ(watch.Snapshot().Read().status, LimitStatus::kUndecided);
  EXPECT_EQ(watch.count(), 20000);
  ClassErrorWatch off = ModelWatch(3);
  Add(off, OverConfident(3, 20000, 0.015, 10), 0, 20000);
  EXPECT_FALSE(off.TakeCrossing().has_value());
  off.SetLimit(1e-3, 20000);
  const std::optional<LimitCrossing> crossing = off.TakeCrossing();
  ASSERT_TRUE(crossing.has_value());
  EXPECT_EQ(crossing->observation, 20000);
  EXPECT_EQ(crossing->limit, 1e-3);
}

TEST(ClassMeasureTest, TheStatusFollowsAHigherLimitAndTheAlarmDoesNot) {
  for (const std::size_t m : {2U, 3U}) {
    ClassErrorWatch watch = ModelWatch(m);
    const PredictionSet set = OverConfident(m, 5000, 0.3, 40);
    Add(watch, set, 0, 4000);
    ASSERT_EQ(watch.TakeCrossing()->limit, kLimit);
    const auto status = [&watch] { return watch.Snapshot().Read().status; };
    const auto interval = [&watch] { return *watch.Snapshot().Read().now[0]; };
    // The error still exceeds the limit.
    watch.SetLimit(interval().lower - 1e-3, 4000);
    EXPECT_EQ(status(), LimitStatus::kOverLimit);
    watch.SetLimit(interval().estimate, 4000);
    EXPECT_EQ(status(), LimitStatus::kUndecided);
    EXPECT_FALSE(watch.Snapshot().acknowledged);
    watch.SetLimit(0.99, 4000);
    EXPECT_EQ(status(), LimitStatus::kWithinLimit);
    // A restored watch says the same.
    ClassErrorWatch restored = ModelWatch(m);
    ASSERT_TRUE(restored.Restore(Saved(watch)).ok());
    EXPECT_EQ(Saved(restored).SerializeAsString(), Saved(watch).SerializeAsString());
    // The active alarm stands for an error that exceeds the limit again.
    ClassErrorWatch again = watch;
    again.SetLimit(kLimit, 4000);
    EXPECT_EQ(again.Snapshot().Read().status, LimitStatus::kOverLimit);
    EXPECT_FALSE(again.TakeCrossing().has_value());
    // An acknowledgement of an error that is accepted raises no limit and restarts nothing.
    watch.Acknowledge(4000);
    EXPECT_EQ(status(), LimitStatus::kWithinLimit);
    EXPECT_EQ(watch.count(), 4000);
    EXPECT_EQ(watch.Snapshot().limit, 0.99);
    watch.SetLimit(kLimit, 4000);
    EXPECT_EQ(status(), LimitStatus::kOverLimit);
    EXPECT_EQ(watch.TakeCrossing()->limit, kLimit);
  }
}

TEST(ClassMeasureTest, AHigherLimitAcceptsAnAcknowledgedErrorThatItMayContain) {
  ClassErrorWatch watch = ModelWatch(3);
  Add(watch, OverConfident(3, 4000, 0.3, 41), 0, 4000);
  const ErrorInterval error = *watch.Snapshot().Read().now[0];
  watch.Acknowledge(4000);
  ASSERT_TRUE(watch.Snapshot().acknowledged);
  // What was acknowledged is still above this limit, although no row has come since.
  watch.SetLimit(error.lower - 1e-3, 4000);
  EXPECT_TRUE(watch.Snapshot().acknowledged);
  EXPECT_EQ(watch.Snapshot().Read().status, LimitStatus::kOverLimit);
  ClassErrorWatch restored = ModelWatch(3);
  ASSERT_TRUE(restored.Restore(Saved(watch)).ok());
  restored.SetLimit(error.lower + 1e-3, 4000);
  EXPECT_FALSE(restored.Snapshot().acknowledged);
  EXPECT_EQ(restored.Snapshot().limit, error.lower + 1e-3);
  EXPECT_EQ(restored.Snapshot().Read().status, LimitStatus::kUndecided);
  // Another significance level, in the same update.
  watch.Restart(ClassErrorWatch(ClassMeasure(ErrorBudget::OfModel(0.01, 3)),
                                {.error_limit = 0.9, .min_observations = kLeast}, 4001));
  EXPECT_EQ(watch.Snapshot().Read().status, LimitStatus::kUndecided);
}

// 500 good rows and 300 bad ones: the average is far below the error of the newest rows, which no
// interval tells yet.
TEST(ClassMeasureTest, AHigherLimitEndsNoAlarmOfTheNewestRowsBeforeTheyAreKnown) {
  const PredictionSet set =
      Joined(OverConfident(3, 500, 0, 51),
             Joined(OverConfident(3, 300, 0.5, 52), OverConfident(3, 900, 0, 53)));
  ClassErrorWatch watch = WatchOf(ErrorBudget::OfModel(kAlpha, 3), 100);
  Add(watch, set, 0, 580);
  const std::optional<LimitCrossing> crossing = watch.TakeCrossing();
  ASSERT_TRUE(crossing.has_value());
  ASSERT_TRUE(crossing->recent);
  ASSERT_FALSE(watch.Snapshot().Read().newest.has_value()) << "fewer than 1000 rows";
  const ErrorInterval all = *watch.Snapshot().Read().now[0];
  const double unknown = (std::max(all.lower, kLimit) + all.upper) / 2;
  const auto status = [](const ClassErrorWatch& one) { return one.Snapshot().Read().status; };
  ClassErrorWatch raised = watch;
  raised.SetLimit(unknown, 580);
  EXPECT_EQ(status(raised), LimitStatus::kOverLimit);
  EXPECT_TRUE(raised.Snapshot().Read().is_recent);
  EXPECT_FALSE(raised.TakeCrossing().has_value()) << "one fact has one alarm";
  ClassErrorWatch restored = ModelWatch(3);
  ASSERT_TRUE(restored.Restore(Saved(raised)).ok());
  EXPECT_EQ(status(restored), LimitStatus::kOverLimit);
  // It can be acknowledged.
  raised.Acknowledge(580);
  EXPECT_TRUE(raised.Snapshot().acknowledged);
  // All rows together are shown to be within the higher limit.
  ClassErrorWatch accepted = watch;
  accepted.SetLimit(all.upper + 1e-3, 580);
  EXPECT_EQ(status(accepted), LimitStatus::kWithinLimit);
  // After 1000 rows, the interval of the newest ones says that they are not shown to exceed it.
  Add(watch, set, 580, 1700);
  ASSERT_TRUE(watch.Snapshot().Read().newest.has_value());
  watch.SetLimit(watch.Snapshot().Read().newest->intervals[0]->lower + 1e-3, 1700);
  EXPECT_NE(status(watch), LimitStatus::kOverLimit);
  // After a restart, nothing is known.
  ClassErrorWatch again = restored;
  again.Restart(ClassErrorWatch(ClassMeasure(ErrorBudget::OfModel(0.01, 3)),
                                {.error_limit = unknown, .min_observations = kLeast}, 581));
  again.SetLimit(0.9, 580);
  EXPECT_EQ(status(again), LimitStatus::kOverLimit);
}

TEST(ClassMeasureTest, AHigherLimitRestartsTheRecentError) {
  // The recent error exceeds the first limit before the minimum, and not the second limit.
  ClassErrorWatch watch = WatchOf(ErrorBudget::OfModel(kAlpha, 3), 1000);
  const PredictionSet set = Joined(OverConfident(3, 900, 0.2, 18), OverConfident(3, 400, 0, 19));
  Add(watch, set, 0, 900);
  EXPECT_GT(RecentLog10EValue(watch.Snapshot()), RecentThreshold(watch.Snapshot()));
  watch.SetLimit(0.4, 900);
  Add(watch, set, 900, set.labels.size());
  EXPECT_FALSE(watch.TakeCrossing().has_value());
  EXPECT_EQ(watch.Snapshot().Read().status, LimitStatus::kWithinLimit);
}

TEST(ClassMeasureTest, AnErrorAfterAnAcknowledgedOneWasWithinTheLimitCrossesAtOnce) {
  // A group, which has no recent error.
  const ErrorBudget budget = ErrorBudget::OfGroup(kAlpha, 1, 3);
  ClassErrorWatch watch = WatchOf(budget, kLeast);
  Add(watch, OverConfident(3, 300, 0.9, 20), 0, 300);
  ASSERT_TRUE(watch.TakeCrossing().has_value());
  watch.Acknowledge(300);
  const PredictionSet set =
      Joined(OverConfident(3, 300, 0, 21),
             Joined(OverConfident(3, 60000, 0, 22), OverConfident(3, 20000, 0.9, 23)));
  std::size_t rows = 300;
  for (; watch.Snapshot().acknowledged; ++rows) Add(watch, set, rows, rows + 1);
  ASSERT_LT(rows, 60300);
  while (watch.Snapshot().Read().now[0]->lower <= kLimit) {
    ASSERT_FALSE(watch.TakeCrossing().has_value()) << rows;
    Add(watch, set, rows, rows + 1);
    ++rows;
  }
  const std::optional<LimitCrossing> crossing = watch.TakeCrossing();
  ASSERT_TRUE(crossing.has_value());
  EXPECT_EQ(crossing->observation, static_cast<std::int64_t>(rows));
}

TEST(ClassMeasureTest, ARecentErrorIsNoLongerRecentOnceAllObservationsExceedTheLimit) {
  ClassErrorWatch watch = ModelWatch(3);
  const PredictionSet set = Joined(OverConfident(3, 8000, 0, 24), OverConfident(3, 60000, 0.2, 25));
  std::size_t rows = 0;
  while (!watch.Snapshot().over) Add(watch, set, rows, rows + 1), ++rows;
  EXPECT_TRUE(watch.Snapshot().over_recent);
  while (watch.Snapshot().Read().now[0]->lower <= kLimit) Add(watch, set, rows, rows + 1), ++rows;
  EXPECT_FALSE(watch.Snapshot().over_recent);
  EXPECT_FALSE(watch.Snapshot().Read().is_recent);
  // The acknowledged limit is the end of the interval, not that of a stretch.
  const double upper = watch.Snapshot().Read().now[0]->upper;
  watch.Acknowledge(static_cast<std::int64_t>(rows));
  EXPECT_EQ(watch.Snapshot().limit, upper);
}

TEST(ClassMeasureTest, ARestartKeepsAnAlarmActive) {
  ClassErrorWatch watch = ModelWatch(3);
  Add(watch, OverConfident(3, 5000, 0.2, 16), 0, 5000);
  ASSERT_TRUE(watch.TakeCrossing().has_value());
  watch.Restart(WatchOf(ErrorBudget::OfModel(0.01, 3), kLeast, 5001));
  EXPECT_EQ(watch.count(), 0);
  EXPECT_EQ(watch.Snapshot().Read().status, LimitStatus::kOverLimit);
  // How far off the rows before were is still known.
  EXPECT_EQ(watch.Snapshot().first_observation, 5001);
  EXPECT_EQ(watch.Snapshot().start_observation, 1);
  EXPECT_EQ(watch.Snapshot().measured->count_since_start(), 5000);
  EXPECT_FALSE(watch.Snapshot().Read().now[0].has_value());
  EXPECT_GT(watch.Snapshot().Read().since_start[0]->lower, kLimit);
  ClassErrorWatch restored = WatchOf(ErrorBudget::OfModel(0.01, 3), kLeast);
  ASSERT_TRUE(restored.Restore(Saved(watch)).ok());
  EXPECT_EQ(restored.Snapshot().measured->count_since_start(), 5000);
  Add(watch, OverConfident(3, 9000, 0.2, 17), 5000, 9000);
  EXPECT_FALSE(watch.TakeCrossing().has_value());
}

TEST(ClassMeasureTest, ARestoredWatchContinuesWithTheSameBits) {
  for (const std::size_t m : {2U, 3U}) {
    const PredictionSet set =
        Joined(OverConfident(m, 9000, 0.04, 11), OverConfident(m, 9000, 0, 12));
    ClassErrorWatch whole = ModelWatch(m);
    ClassErrorWatch parts = ModelWatch(m);
    for (std::size_t i = 0; i < set.labels.size(); ++i) {
      Add(whole, set, i, i + 1);
      Add(parts, set, i, i + 1);
      const bool acknowledges = i == 5000;
      if (acknowledges) {
        whole.Acknowledge(5001);
        parts.Acknowledge(5001);
      }
      EXPECT_EQ(whole.TakeCrossing().has_value(), parts.TakeCrossing().has_value());
      whole.SetTime(ClassErrorWatch::Time(std::chrono::seconds(i)));
      parts.SetTime(ClassErrorWatch::Time(std::chrono::seconds(i)));
      if (i % 1111 == 0 || acknowledges) {
        const store::v1::ErrorState state = Saved(parts);
        parts = ModelWatch(m);
        ASSERT_TRUE(parts.Restore(state).ok());
        EXPECT_EQ(Saved(parts).SerializeAsString(), state.SerializeAsString());
      }
    }
    EXPECT_EQ(Saved(parts).SerializeAsString(), Saved(whole).SerializeAsString());
    EXPECT_LE(Saved(whole).ByteSizeLong(), 16384);
  }
}

TEST(ClassMeasureTest, RefusesImpossibleStates) {
  ClassErrorWatch watch = ModelWatch(2);
  Add(watch, OverConfident(2, 2000, 0.04, 13), 0, 2000);
  const store::v1::ErrorState good = Saved(watch);
  const auto refused = [](const store::v1::ErrorState& state) {
    ClassErrorWatch restored = ModelWatch(2);
    return !restored.Restore(state).ok();
  };
  EXPECT_FALSE(refused(good));
  store::v1::ErrorState state = good;
  state.mutable_sums()->mutable_series()->RemoveLast();
  EXPECT_TRUE(refused(state));
  state = good;
  state.mutable_sums()->mutable_series(1)->set_counts(0, 5);
  EXPECT_TRUE(refused(state));
  state = good;
  state.mutable_recent(0)->set_wealth(3, -1);
  EXPECT_TRUE(refused(state));
  state = good;
  state.mutable_recent()->RemoveLast();
  EXPECT_TRUE(refused(state));
  state = good;
  state.set_recent_series(2);
  EXPECT_TRUE(refused(state));
  state = good;
  state.mutable_since_start()->set_first_observation(0);
  EXPECT_TRUE(refused(state));
}

TEST(ClassMeasureTest, MarksAreFewerTheOlderTheyAre) {
  ClassErrorWatch watch = ModelWatch(3);
  const PredictionSet set = OverConfident(3, 100 * 1024, 0, 14);
  Add(watch, set, 0, set.labels.size());
  std::vector<std::int64_t> marks;
  for (const ErrorSums& mark : *Measured(watch.Snapshot()).marks)
    marks.push_back(mark.count() / 1024);
  EXPECT_THAT(marks, ElementsAre(32, 48, 64, 72, 80, 88, 92, 93, 94, 95, 96, 97, 98, 99, 100));
  EXPECT_THAT(sizeof(ClassErrorWatch) + marks.size() * sizeof(ErrorSums),
              Le(ClassMeasure::MaxMemory()));
}

// The sums of the rows from `first` on, counted from 0.
ErrorSeries SeriesOf(const PredictionSet& set, std::size_t first, std::size_t end) {
  ErrorSeries series{};
  for (std::size_t i = first; i < end; ++i) {
    const auto g = set.view().row(i);
    const auto best = static_cast<std::size_t>(std::max_element(g.begin(), g.end()) - g.begin());
    series[0].Add(g[best], set.labels[i] == static_cast<std::int32_t>(best));
    series[1].Add(g[1], set.labels[i] == 1);
  }
  return series;
}

void ExpectInterval(const std::optional<ErrorInterval>& interval, const ReliabilitySums& sums,
                    const ErrorLevels& levels) {
  ASSERT_TRUE(interval.has_value());
  const ErrorInterval expected = *BinnedErrorInterval(sums, levels);
  EXPECT_NEAR(interval->estimate, expected.estimate, 1e-9);
  EXPECT_NEAR(interval->lower, expected.lower, 1e-9);
  EXPECT_NEAR(interval->upper, expected.upper, 1e-9);
  EXPECT_NEAR(interval->gap, expected.gap, 1e-9);
}

TEST(ClassMeasureTest, TheNewestObservationsAreChosenByTheirNumbers) {
  for (const std::size_t m : {2U, 3U}) {
    const PredictionSet set = OverConfident(m, 9000, 0.01, 30);
    ClassErrorWatch watch = ModelWatch(m);
    for (std::size_t n = 1; n <= set.labels.size(); ++n) {
      Add(watch, set, n - 1, n);
      if (n % 250 != 0) continue;
      const ErrorReading reading = watch.Snapshot().Read();
      ASSERT_EQ(reading.newest.has_value(), n >= 1000) << n;
      if (!reading.newest.has_value()) continue;
      const std::size_t start = (n - 1000) / 1024 * 1024;
      EXPECT_EQ(reading.newest->start, static_cast<std::int64_t>(start));
      EXPECT_EQ(reading.newest->first_observation, static_cast<std::int64_t>(start) + 1);
      EXPECT_EQ(reading.newest->observations, static_cast<std::int64_t>(n - start));
      const ErrorSeries series = SeriesOf(set, start, n);
      const double events = m == 2 ? 2 : 1;
      for (std::size_t s = 0; s < (m == 2 ? 2 : 1); ++s) {
        ExpectInterval(reading.newest->intervals[s], series[s],
                       {.bins = 0.0375 / events, .gap = 0.0125 / events});
      }
      EXPECT_EQ(reading.newest->intervals[1].has_value(), m == 2);
    }
  }
  ClassErrorWatch group = WatchOf(ErrorBudget::OfGroup(kAlpha, 1, 3), kLeast);
  Add(group, OverConfident(3, 3000, 0, 31), 0, 3000);
  EXPECT_FALSE(group.Snapshot().Read().newest.has_value());
}

// 20000 good rows, 2000 bad ones and good ones again.
TEST(ClassMeasureTest, AnAlarmRecoversAndItsAcknowledgementRaisesNoLimit) {
  for (const std::size_t m : {2U, 3U}) {
    const PredictionSet set =
        Joined(OverConfident(m, 20000, 0, 32),
               Joined(OverConfident(m, 2000, 0.2, 33), OverConfident(m, 48000, 0, 34)));
    ClassErrorWatch watch = WatchOf(ErrorBudget::OfModel(kAlpha, m), kLeast);
    watch.SetLimit(0.05, 0);
    Add(watch, set, 0, 22000);
    const std::optional<LimitCrossing> crossing = watch.TakeCrossing();
    ASSERT_TRUE(crossing.has_value());
    ASSERT_GT(crossing->observation, 20000);
    EXPECT_EQ(watch.Snapshot().over_at, crossing->observation);
    EXPECT_FALSE(watch.Snapshot().Read().recovered);
    std::size_t rows = 22000;
    for (; rows < set.labels.size() && !watch.Snapshot().Read().recovered; rows += 512) {
      Add(watch, set, rows, rows + 512);
    }
    ASSERT_LT(rows, 40000U) << "vague probabilities, 5 points: 4600 rows (median)";
    const ErrorReading reading = watch.Snapshot().Read();
    EXPECT_EQ(reading.status, LimitStatus::kOverLimit) << "until it is acknowledged";
    const std::int64_t start = reading.newest->start;
    EXPECT_GE(start, crossing->observation);
    EXPECT_EQ(start % 1024, 0);
    const auto j = static_cast<double>(start / 1024 - crossing->observation / 1024);
    const double level = 0.05 / (j * (j + 1)) / (m == 2 ? 2 : 1);
    const ErrorSeries series = SeriesOf(set, static_cast<std::size_t>(start), rows);
    for (std::size_t s = 0; s < (m == 2 ? 2 : 1); ++s) {
      ExpectInterval(reading.newest->intervals[s], series[s], {.bins = level, .gap = level});
      EXPECT_LE(reading.newest->intervals[s]->upper, 0.05);
    }

    // It is off again: the average since the recovery is not yet.
    ClassErrorWatch again = watch;
    const PredictionSet bad = OverConfident(m, rows + 1800, 0.3, 35);
    Add(again, bad, rows, rows + 1800);
    EXPECT_FALSE(again.Snapshot().Read().recovered);
    // The start of a stretch that is nearest to the change.
    EXPECT_FALSE(watch.Snapshot().OverAgainSince().has_value());
    const std::int64_t over_again = again.Snapshot().OverAgainSince().value_or(0);
    EXPECT_EQ((over_again - 1) % 1024, 0);
    EXPECT_NEAR(static_cast<double>(over_again), static_cast<double>(rows), 1100);
    again.Acknowledge(static_cast<std::int64_t>(rows) + 1800);
    EXPECT_TRUE(again.Snapshot().acknowledged);
    EXPECT_GT(again.Snapshot().limit, 0.05);

    // A restored watch says the same.
    const store::v1::ErrorState state = Saved(watch);
    ClassErrorWatch restored = ModelWatch(m);
    restored.SetLimit(0.05, 0);
    ASSERT_TRUE(restored.Restore(state).ok());
    EXPECT_TRUE(restored.Snapshot().Read().recovered);
    EXPECT_EQ(restored.Snapshot().Read().newest->start, start);
    // One that does not know when the alarm was raised has not seen a recovery.
    store::v1::ErrorState former = state;
    former.clear_over_at();
    ASSERT_TRUE(restored.Restore(former).ok());
    EXPECT_FALSE(restored.Snapshot().Read().recovered);
    former.set_over_at(static_cast<std::int64_t>(rows) + 1);
    EXPECT_FALSE(restored.Restore(former).ok());

    watch.Acknowledge(static_cast<std::int64_t>(rows));
    EXPECT_FALSE(watch.Snapshot().acknowledged);
    EXPECT_EQ(watch.Snapshot().limit, 0.05);
    EXPECT_EQ(watch.Snapshot().Read().status, LimitStatus::kUndecided);
    EXPECT_FALSE(watch.Snapshot().Read().recovered);
    // What was known stays until a row follows, also after a restart.
    store::v1::ErrorState acknowledged = Saved(watch);
    ASSERT_TRUE(restored.Restore(acknowledged).ok());
    EXPECT_EQ(Saved(restored).SerializeAsString(), acknowledged.SerializeAsString());
    for (ClassErrorWatch* const one : {&watch, &restored}) {
      const std::optional<ErrorStretch> kept = one->Snapshot().Read().newest;
      ASSERT_TRUE(kept.has_value());
      EXPECT_EQ(kept->first_observation, reading.newest->first_observation);
      EXPECT_EQ(kept->observations, reading.newest->observations);
      EXPECT_EQ(kept->intervals[0]->upper, reading.newest->intervals[0]->upper);
      EXPECT_EQ(kept->intervals[1].has_value(), m == 2);
      Add(*one, set, rows, rows + 1);
      EXPECT_FALSE(one->Snapshot().Read().newest.has_value());
    }
    EXPECT_FALSE(Saved(watch).has_recovery());
    acknowledged.mutable_recovery()->clear_intervals();
    EXPECT_FALSE(restored.Restore(acknowledged).ok());
  }
}

// The average over stretches that contain bad rows is within the limit, but the error changed later
// than they begin.
TEST(ClassMeasureTest, ARecoveryBeginsAfterTheDatedChange) {
  for (const std::size_t m : {2U, 3U}) {
    const PredictionSet set =
        Joined(OverConfident(m, 2000, 0.3, 40), OverConfident(m, 20000, 0, 41));
    ClassErrorWatch watch = ModelWatch(m);
    watch.SetLimit(0.12, 0);
    Add(watch, set, 0, 2000);
    ASSERT_TRUE(watch.TakeCrossing().has_value());
    ASSERT_LE(watch.Snapshot().over_at, 1024) << "a stretch that begins there has 976 bad rows";
    int recovered = 0;
    for (std::size_t rows = 2000; rows < set.labels.size(); rows += 500) {
      Add(watch, set, rows, rows + 500);
      const ErrorSnapshot snapshot = watch.Snapshot();
      if (!snapshot.Read().recovered) continue;
      ++recovered;
      EXPECT_GE(snapshot.ChangedUntil(), 2000);
      EXPECT_GT(snapshot.Read().newest->first_observation, snapshot.ChangedUntil());
    }
    EXPECT_GT(recovered, 20);
    // The newest rows are worse again. Their error is smaller than the limit, but not shown to be.
    const PredictionSet worse = OverConfident(m, set.labels.size() + 3000, 0.1, 42);
    const std::size_t rows = set.labels.size();
    Add(watch, worse, rows, rows + 3000);
    ASSERT_GT(watch.Snapshot().ChangedUntil(), 21000);
    EXPECT_FALSE(watch.Snapshot().Read().recovered);
    EXPECT_FALSE(watch.Snapshot().OverAgainSince().has_value());
    watch.Acknowledge(static_cast<std::int64_t>(rows) + 3000);
    EXPECT_TRUE(watch.Snapshot().acknowledged);
  }
}

TEST(ClassMeasureTest, AnAlarmOfAGroupRecovers) {
  ClassErrorWatch group = WatchOf(ErrorBudget::OfGroup(kAlpha, 5, 3), kLeast);
  group.SetLimit(0.05, 0);
  const PredictionSet set = Joined(OverConfident(3, 4000, 0.3, 38), OverConfident(3, 56000, 0, 39));
  Add(group, set, 0, 200);
  EXPECT_EQ(Saved(group).marks_size(), 0);
  Add(group, set, 200, 4000);
  ASSERT_TRUE(group.TakeCrossing().has_value());
  EXPECT_FALSE(group.Snapshot().Read().newest.has_value());
  Add(group, set, 4000, set.labels.size());
  const ErrorReading reading = group.Snapshot().Read();
  EXPECT_TRUE(reading.recovered);
  EXPECT_LE(reading.newest->intervals[0]->upper, 0.05);
  group.Acknowledge(60000);
  EXPECT_FALSE(group.Snapshot().acknowledged);
  EXPECT_FALSE(Saved(group).has_recovery());
  EXPECT_EQ(Saved(group).marks_size(), 0);
}

TEST(ClassMeasureTest, ARecoveryCountsAllRowsOfANewRun) {
  ClassErrorWatch watch = ModelWatch(3);
  Add(watch, OverConfident(3, 2000, 0.3, 36), 0, 2000);
  ASSERT_TRUE(watch.TakeCrossing().has_value());
  watch.Restart(WatchOf(ErrorBudget::OfModel(0.01, 3), kLeast, 2001));
  EXPECT_EQ(watch.Snapshot().over_at, 0);
  EXPECT_TRUE(watch.Snapshot().over);
  const PredictionSet good = OverConfident(3, 60000, 0, 37);
  Add(watch, good, 2000, 60000);
  EXPECT_TRUE(watch.Snapshot().Read().recovered);
}

// The marks of a watch contain each start that a stretch of newest observations may have.
TEST(ClassMeasureTest, MarksContainTheStartOfTheNewestObservations) {
  for (const std::int64_t spacing : {256, 1024}) {
    for (std::int64_t count = 1000; count < 70000; count += 8) {
      const std::int64_t start = *NewestStart(count);
      EXPECT_TRUE(start == 0 || KeepsMark(start / spacing, count / spacing)) << count;
      // And the newest two multiples of each larger power of two.
      for (std::int64_t power = 1024; power <= count; power *= 2) {
        const std::int64_t newest = (count - 1000) / power * power;
        for (const std::int64_t one : {newest, newest - power}) {
          EXPECT_TRUE(one <= 0 || KeepsMark(one / spacing, count / spacing)) << count << " " << one;
        }
      }
    }
  }
}

TEST(ClassMeasureTest, ForeseesHowManyObservationsAreNeeded) {
  ClassErrorWatch watch = ModelWatch(3);
  const PredictionSet set = OverConfident(3, 90000, 0, 15);
  Add(watch, set, 0, 999);
  ASSERT_EQ(watch.Snapshot().Read().status, LimitStatus::kUndecided);
  EXPECT_FALSE(watch.Snapshot().Foresee().has_value());
  Add(watch, set, 999, 6000);
  const ErrorSnapshot snapshot = watch.Snapshot();
  const std::optional<RowsUntilDecided> rows = snapshot.Foresee();
  ASSERT_TRUE(rows.has_value());
  // The same sums have the same answer.
  EXPECT_EQ(watch.Snapshot().Foresee()->lower, rows->lower);
  EXPECT_EQ(watch.Snapshot().Foresee()->upper, rows->upper);
  std::size_t decided = 6000;
  while (watch.Snapshot().Read().status == LimitStatus::kUndecided && decided < set.labels.size()) {
    Add(watch, set, decided, decided + 16);
    decided += 16;
  }
  EXPECT_EQ(watch.Snapshot().Read().status, LimitStatus::kWithinLimit);
  EXPECT_LE(static_cast<std::size_t>(rows->lower), decided - 6000);
  EXPECT_GE(static_cast<std::size_t>(rows->upper), decided - 6000 - 16);
  // It needs no answer any more.
  EXPECT_FALSE(watch.Snapshot().Foresee().has_value());
}

}  // namespace
}  // namespace calibd::server
