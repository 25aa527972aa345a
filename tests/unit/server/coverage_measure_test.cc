// How far off forecasts are, of all outcomes and of the newest ones.
#include "server/kinds/numbers/coverage_measure.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <chrono>
#include <cmath>
#include <memory>
#include <numbers>
#include <optional>
#include <random>
#include <vector>

namespace calibd::server {
namespace {

using ::testing::ElementsAre;

constexpr double kCoverageAlpha = 0.05;
constexpr double kCoverageLimit = 0.05;
constexpr std::int64_t kSpacing = 256;

std::shared_ptr<const ForecastCells> CellsOf(const NumberForecastKind& kind) {
  return *ForecastCells::Create(kind, {}, 1, kDefaultTolerance);
}

CoverageWatch WatchOf(const std::shared_ptr<const ForecastCells>& cells,
                      CoverageMeasure::Of of = CoverageMeasure::Of::kModel,
                      double limit = kCoverageLimit) {
  return CoverageWatch(CoverageMeasure(of, cells, kCoverageAlpha),
                       {.error_limit = limit, .min_observations = 100}, 1);
}

std::shared_ptr<const MeasuredCoverage> CoverageIn(const CoverageWatch& watch) {
  return std::dynamic_pointer_cast<const MeasuredCoverage>(watch.Snapshot().measured);
}

// Rows of n Normal forecasts whose outcomes have residuals from N(shift, scale^2).
std::vector<ForecastRow> RowsOf(const ForecastCells& cells, std::size_t n, double shift,
                                double scale, std::uint64_t seed) {
  std::mt19937_64 random(seed);
  std::normal_distribution<double> residual(shift, scale);
  std::vector<double> outcomes(n);
  std::vector<double> forecasts(2 * n);
  for (std::size_t i = 0; i < n; ++i) {
    outcomes[i] = residual(random);
    forecasts[2 * i + 1] = 1;
  }
  std::vector<ForecastRow> rows(n);
  cells.Describe({.forecasts = forecasts, .outcomes = outcomes}, 1, rows);
  return rows;
}

// Calibrated until `change`, then with the residuals of RowsOf.
std::vector<ForecastRow> Changing(const ForecastCells& cells, std::size_t change, std::size_t n,
                                  double shift, double scale) {
  std::vector<ForecastRow> rows = RowsOf(cells, change, 0, 1, 1);
  const std::vector<ForecastRow> later = RowsOf(cells, n - change, shift, scale, 2);
  rows.insert(rows.end(), later.begin(), later.end());
  return rows;
}

// The coverage error of the rows from `first`, 0-based, with its interval at the level alpha, from
// the definition: 20 equal cells of the probability integral transform.
CoverageError Measured(const std::vector<ForecastRow>& rows, std::size_t first, std::size_t end,
                       double alpha) {
  std::vector<double> counts(20);
  for (std::size_t i = first; i < end; ++i) {
    const double pit = std::erfc(-rows[i].t / std::numbers::sqrt2) / 2;
    counts[static_cast<std::size_t>(std::min(19.0, std::floor(20 * pit)))] += 1;
  }
  const auto n = static_cast<double>(end - first);
  CoverageError error;
  for (const double count : counts) error.estimate += std::abs(count / n - 0.05) / 2;
  const double a = n / 4 + 50;
  const double margin =
      std::sqrt(a * (2 * (19 * std::numbers::ln2 - std::log(alpha)) + std::log(a / 50))) / n;
  error.lower = std::max(0.0, error.estimate - margin);
  error.upper = std::min(1.0, error.estimate + margin);
  return error;
}

// A quarter of alpha for the stretch since the start, and 2 / ((j + 1) (j + 2)) as much for the one
// since mark j.
double LevelOf(std::int64_t mark) {
  const auto j = static_cast<double>(mark);
  return kCoverageAlpha / 4 * 2 / ((j + 1) * (j + 2));
}

// The central intervals of 50, 80 and 90 % are the same one, which promises 80 %.
TEST(CoverageMeasureTest, TheGapIsThatOfTheWidestIntervalThatIsSet) {
  const auto cells = CellsOf(QuantileForecasts{{.1, .5, .9}});
  ForecastCounts counts(cells->cell_count());
  // 20 % of the outcomes are in the first cell, 20 % in the last one, and 60 % between.
  for (int i = 0; i < 1000; ++i) {
    ForecastRow row;
    row.cell = static_cast<std::uint8_t>(i % 10 < 2 ? 0 : i % 10 < 4 ? 3 : 1);
    counts.Add(row);
  }
  const auto coverage = CoverageOf(*cells, counts, {});
  ASSERT_TRUE(coverage.has_value());
  EXPECT_FALSE(coverage->central.back().has_value());
  const ErrorInterval interval = IntervalOf(*coverage);
  EXPECT_NEAR(interval.gap, 0.2, 1e-12);
  EXPECT_GT(interval.gap_lower, 0.05);
  EXPECT_LT(interval.gap_upper, 0.35);
}

TEST(CoverageMeasureTest, TheRecentErrorIsThatOfTheClearestStretch) {
  const auto cells = CellsOf(NormalForecasts{});
  const std::vector<ForecastRow> rows = Changing(*cells, 2900, 4000, 0.3, 1.6);
  CoverageWatch watch = WatchOf(cells);
  std::size_t sometimes_later = 0;
  for (std::size_t n = 1; n <= rows.size(); ++n) {
    watch.Add(rows[n - 1], static_cast<std::int64_t>(n));
    if (n % 97 != 0) continue;
    std::size_t clearest = 0;
    CoverageError expected = Measured(rows, 0, n, LevelOf(0));
    const std::shared_ptr<const MeasuredCoverage> snapshot = CoverageIn(watch);
    for (const CoverageMark& mark : *snapshot->marks) {
      const auto first = static_cast<std::size_t>(mark.index * kSpacing);
      EXPECT_EQ(mark.first_observation, mark.index * kSpacing + 1);
      if (first == n) continue;
      const CoverageError error = Measured(rows, first, n, LevelOf(mark.index));
      if (error.lower <= expected.lower) continue;
      expected = error;
      clearest = first;
    }
    const CoverageStretch recent = *snapshot->Recent();
    EXPECT_EQ(recent.first_observation, static_cast<std::int64_t>(clearest) + 1);
    EXPECT_EQ(recent.coverage.count, static_cast<std::int64_t>(n - clearest));
    EXPECT_NEAR(recent.coverage.error.estimate, expected.estimate, 1e-12);
    EXPECT_NEAR(recent.coverage.error.lower, expected.lower, 1e-12);
    EXPECT_NEAR(recent.coverage.error.upper, expected.upper, 1e-12);
    double sum = 0;
    for (std::size_t i = clearest; i < n; ++i) sum += rows[i].t;
    EXPECT_NEAR(recent.counts.t, sum, 1e-9);
    sometimes_later += clearest > 0 ? 1 : 0;
  }
  EXPECT_GT(sometimes_later, 5U);
}

// The first observation after which the start or a stretch is certainly above the limit, from the
// definition, at every observation.
std::optional<std::size_t> FirstOver(const std::vector<ForecastRow>& rows, double limit) {
  const auto cells = CellsOf(NormalForecasts{});
  CoverageWatch marks = WatchOf(cells, CoverageMeasure::Of::kModel, 0.99);
  for (std::size_t n = 1; n <= rows.size(); ++n) {
    // The marks before this observation: the one that it makes has no stretch yet.
    const auto before = CoverageIn(marks)->marks;
    marks.Add(rows[n - 1], static_cast<std::int64_t>(n));
    if (n < 100) continue;
    if (Measured(rows, 0, n, LevelOf(0)).lower > limit) return n;
    for (const CoverageMark& mark : *before) {
      const auto first = static_cast<std::size_t>(mark.index * kSpacing);
      if (Measured(rows, first, n, LevelOf(mark.index)).lower > limit) return n;
    }
  }
  return std::nullopt;
}

TEST(CoverageMeasureTest, DecidesAtTheFirstObservationThatTellsIt) {
  const auto cells = CellsOf(NormalForecasts{});
  const auto crossing = [&](const std::vector<ForecastRow>& rows, double limit) {
    CoverageWatch watch = WatchOf(cells, CoverageMeasure::Of::kModel, limit);
    std::optional<LimitCrossing> found;
    for (std::size_t i = 0; i < rows.size() && !found; ++i) {
      watch.Add(rows[i], static_cast<std::int64_t>(i) + 1);
      found = watch.TakeCrossing();
    }
    return found;
  };
  for (const double limit : {0.02, 0.05, 0.1}) {
    const std::vector<ForecastRow> rows = Changing(*cells, 3000, 5000, 0, 1.7);
    const std::optional<LimitCrossing> found = crossing(rows, limit);
    ASSERT_TRUE(found.has_value());
    EXPECT_EQ(static_cast<std::size_t>(found->observation), FirstOver(rows, limit));
    EXPECT_TRUE(found->recent);
    EXPECT_GT(found->interval->lower, limit);
    EXPECT_GT(found->interval->gap, 0);
    // The mark before the change, or the one after it.
    EXPECT_THAT(found->first_observation, ::testing::AnyOf(11 * kSpacing + 1, 12 * kSpacing + 1));
  }
  const std::vector<ForecastRow> always = RowsOf(*cells, 3000, 0, 1.7, 3);
  const std::optional<LimitCrossing> found = crossing(always, 0.05);
  ASSERT_TRUE(found.has_value());
  EXPECT_EQ(static_cast<std::size_t>(found->observation), FirstOver(always, 0.05));
  EXPECT_FALSE(crossing(RowsOf(*cells, 20000, 0, 1, 4), 0.05).has_value());
}

// Rows of quantiles at the levels .2, .5 and .8, whose outcomes have the probabilities `cell`.
// From row `first_tie`, one in three outcomes of the first cell equals the quantile of level .2.
std::vector<ForecastRow> QuantileRows(std::size_t n, std::vector<double> cell,
                                      std::size_t first_tie, std::uint64_t seed) {
  std::mt19937_64 random(seed);
  std::discrete_distribution<int> drawn(cell.begin(), cell.end());
  std::vector<ForecastRow> rows(n);
  for (std::size_t i = 0; i < n; ++i) {
    rows[i].cell = static_cast<std::uint8_t>(drawn(random));
    rows[i].ties = i >= first_tie && rows[i].cell == 0 && random() % 3 == 0 ? 1 : 0;
  }
  return rows;
}

TEST(CoverageMeasureTest, DecidesWithTiesAtTheFirstObservationThatTellsIt) {
  const auto cells = CellsOf(QuantileForecasts{{.2, .5, .8}});
  // Too few are above the highest quantile. Without ties, the total variation distance is the same.
  for (const std::size_t first_tie : {0U, 300U, 700U}) {
    const std::vector<ForecastRow> rows = QuantileRows(6000, {.2, .3, .45, .05}, first_tie, 5);
    CoverageWatch watch = WatchOf(cells, CoverageMeasure::Of::kModel, 0.08);
    CoverageWatch marks = WatchOf(cells, CoverageMeasure::Of::kModel, 0.99);
    std::size_t found = 0;
    std::size_t first = 0;
    ForecastCounts counts(cells->cell_count());
    for (std::size_t n = 1; n <= rows.size() && found == 0; ++n) {
      const auto before = CoverageIn(marks)->marks;
      marks.Add(rows[n - 1], static_cast<std::int64_t>(n));
      watch.Add(rows[n - 1], static_cast<std::int64_t>(n));
      counts.Add(rows[n - 1]);
      if (watch.TakeCrossing().has_value()) found = n;
      if (n < 100 || first > 0) continue;
      if (CoverageOf(*cells, counts, {.error = LevelOf(0)})->error.lower > 0.08) first = n;
      for (const CoverageMark& mark : *before) {
        ForecastCounts since = counts;
        since.Subtract(mark.sums.ToCounts());
        const double level = LevelOf(mark.index);
        if (CoverageOf(*cells, since, {.error = level})->error.lower > 0.08) first = n;
      }
    }
    ASSERT_GT(found, 0U);
    // The first tied outcome may tell it one observation before it is checked.
    EXPECT_GE(found, first);
    EXPECT_LE(found, first + 1);
  }
}

TEST(CoverageMeasureTest, NoChangeIsDatedWithTies) {
  const auto cells = CellsOf(QuantileForecasts{{.2, .5, .8}});
  for (const std::size_t first_tie : {20000U, 19999U}) {
    std::vector<ForecastRow> rows = QuantileRows(10000, {.2, .3, .3, .2}, first_tie, 6);
    const std::vector<ForecastRow> later = QuantileRows(10000, {.4, .1, .1, .4}, first_tie, 7);
    rows.insert(rows.end(), later.begin(), later.end());
    if (first_tie < rows.size()) {
      rows.back().cell = 0;
      rows.back().ties = 1;
    }
    CoverageWatch watch = WatchOf(cells);
    for (std::size_t i = 0; i < rows.size(); ++i) {
      watch.Add(rows[i], static_cast<std::int64_t>(i) + 1);
    }
    const bool is_tied = first_tie < rows.size();
    EXPECT_EQ(watch.Snapshot().Changes().empty(), is_tied);
    EXPECT_EQ(CoverageIn(watch)->SinceStart()->levels.empty(), !is_tied);
  }
}

// All intervals of a model, of all stretches, may ever be wrong with a probability of alpha. A
// limit of nearly 0 is exceeded when one of them is.
TEST(CoverageMeasureTest, IntervalsOfAllStretchesHoldTogether) {
  const auto cells = CellsOf(QuantileForecasts{{0.2, 0.5, 0.8}});
  constexpr int kStreams = 400;
  int wrong = 0;
  for (int stream = 0; stream < kStreams; ++stream) {
    std::mt19937_64 random(static_cast<std::uint64_t>(stream));
    std::discrete_distribution<int> cell({0.2, 0.3, 0.3, 0.2});
    CoverageWatch watch = WatchOf(cells, CoverageMeasure::Of::kModel, 1e-9);
    ForecastRow row;
    for (std::int64_t i = 1; i <= 4000; ++i) {
      row.cell = static_cast<std::uint8_t>(cell(random));
      watch.Add(row, i);
    }
    wrong += watch.TakeCrossing().has_value() ? 1 : 0;
  }
  // Half of alpha, and 5 standard deviations more.
  EXPECT_LE(wrong, kStreams * kCoverageAlpha / 2 + 5 * std::sqrt(kStreams * kCoverageAlpha / 2));
}

// One outcome far away, such as in a wrong unit, leaves nothing of smaller numbers in a sum.
TEST(CoverageMeasureTest, RecentResidualsDoNotDependOnEarlierOnes) {
  const auto cells = CellsOf(NormalForecasts{});
  std::vector<ForecastRow> rows = Changing(*cells, 20000, 23000, 0.4, 1.5);
  rows[5].t = 1e200;
  CoverageWatch watch = WatchOf(cells);
  for (std::size_t i = 0; i < rows.size(); ++i) {
    watch.Add(rows[i], static_cast<std::int64_t>(i) + 1);
  }
  const CoverageStretch recent = *CoverageIn(watch)->Recent();
  const auto first = static_cast<std::size_t>(recent.first_observation) - 1;
  ASSERT_GT(first, 19000U);
  double t = 0;
  double t_square = 0;
  for (std::size_t i = first; i < rows.size(); ++i) {
    t += rows[i].t;
    t_square += rows[i].t * rows[i].t;
  }
  EXPECT_NEAR(recent.counts.t, t, 1e-9 * std::abs(t));
  EXPECT_NEAR(recent.counts.t_square, t_square, 1e-9 * t_square);
}

// The delays are those that docs/forecasts.md states.
TEST(CoverageMeasureTest, ChangesAreSeenSoon) {
  const auto cells = CellsOf(NormalForecasts{});
  const auto delay = [&](double scale) {
    std::vector<double> delays;
    for (std::uint64_t stream = 0; stream < 9; ++stream) {
      std::vector<ForecastRow> rows = RowsOf(*cells, 30000, 0, 1, 10 + stream);
      const std::vector<ForecastRow> later = RowsOf(*cells, 12000, 0, scale, 30 + stream);
      rows.insert(rows.end(), later.begin(), later.end());
      CoverageWatch watch = WatchOf(cells);
      std::size_t i = 0;
      while (!watch.TakeCrossing().has_value()) {
        watch.Add(rows.at(i), static_cast<std::int64_t>(i) + 1);
        ++i;
      }
      delays.push_back(static_cast<double>(i) - 30000);
    }
    std::ranges::sort(delays);
    return delays[delays.size() / 2];
  };
  EXPECT_NEAR(delay(1.5), 700, 150);
  EXPECT_NEAR(delay(1.25), 5000, 1000);
}

TEST(CoverageMeasureTest, AnAcknowledgementRestartsTheStretches) {
  const auto cells = CellsOf(NormalForecasts{});
  const std::vector<ForecastRow> rows = Changing(*cells, 20000, 30000, 0, 1.5);
  CoverageWatch watch = WatchOf(cells);
  std::size_t i = 0;
  while (!watch.TakeCrossing().has_value()) {
    watch.Add(rows.at(i), static_cast<std::int64_t>(i) + 1);
    ++i;
  }
  EXPECT_TRUE(watch.Snapshot().Read().is_recent);
  const double upper = CoverageIn(watch)->Recent()->coverage.error.upper;
  watch.Acknowledge(static_cast<std::int64_t>(i));
  EXPECT_EQ(watch.Snapshot().limit, upper);
  EXPECT_TRUE(CoverageIn(watch)->marks->empty());
  EXPECT_FALSE(CoverageIn(watch)->Recent().has_value());
  for (; i < 28000; ++i) watch.Add(rows[i], static_cast<std::int64_t>(i) + 1);
  EXPECT_FALSE(watch.TakeCrossing().has_value()) << "the same error is acknowledged";
  EXPECT_FALSE(watch.Snapshot().Read().is_recent);
}

TEST(CoverageMeasureTest, TheNewestObservationsHaveTheCoverageOfTheirRows) {
  const auto cells = CellsOf(NormalForecasts{});
  const std::vector<ForecastRow> rows = Changing(*cells, 4000, 6000, 0.3, 1.6);
  CoverageWatch watch = WatchOf(cells);
  for (std::size_t n = 1; n <= rows.size(); ++n) {
    watch.Add(rows[n - 1], static_cast<std::int64_t>(n));
    if (n % 333 != 0) continue;
    const ErrorReading reading = watch.Snapshot().Read();
    ASSERT_EQ(reading.newest.has_value(), n >= 1000) << n;
    if (!reading.newest.has_value() || reading.recovered) continue;
    const std::size_t start = (n - 1000) / 1024 * 1024;
    const CoverageError expected = Measured(rows, start, n, 0.025);
    EXPECT_EQ(reading.newest->first_observation, static_cast<std::int64_t>(start) + 1);
    EXPECT_EQ(reading.newest->observations, static_cast<std::int64_t>(n - start));
    EXPECT_NEAR(reading.newest->intervals[0]->estimate, expected.estimate, 1e-12);
    EXPECT_NEAR(reading.newest->intervals[0]->lower, expected.lower, 1e-12);
    EXPECT_NEAR(reading.newest->intervals[0]->upper, expected.upper, 1e-12);
    // Residuals are those of these rows, too.
    double t = 0;
    for (std::size_t i = start; i < n; ++i) t += rows[i].t;
    const ErrorSnapshot snapshot = watch.Snapshot();
    EXPECT_NEAR(CoverageIn(watch)->Newest(snapshot)->counts.t, t, 1e-9);
  }
}

TEST(CoverageMeasureTest, AnAlarmOfForecastsRecovers) {
  const auto cells = CellsOf(NormalForecasts{});
  std::vector<ForecastRow> rows = Changing(*cells, 8000, 10000, 0, 1.8);
  const std::vector<ForecastRow> good = RowsOf(*cells, 40000, 0, 1, 40);
  rows.insert(rows.end(), good.begin(), good.end());
  CoverageWatch watch = WatchOf(cells);
  std::optional<LimitCrossing> crossing;
  std::size_t n = 0;
  for (; n < rows.size() && !watch.Snapshot().Read().recovered; ++n) {
    watch.Add(rows[n], static_cast<std::int64_t>(n) + 1);
    if (!crossing.has_value()) crossing = watch.TakeCrossing();
  }
  ASSERT_TRUE(crossing.has_value());
  ASSERT_GT(n, 10000U);
  ASSERT_LT(n, 40000U);
  const ErrorReading reading = watch.Snapshot().Read();
  const std::int64_t start = reading.newest->start;
  EXPECT_GE(start, crossing->observation);
  EXPECT_EQ(start % 1024, 0);
  const auto j = static_cast<double>(start / 1024 - crossing->observation / 1024);
  const CoverageError expected =
      Measured(rows, static_cast<std::size_t>(start), n, 0.05 / (j * (j + 1)));
  EXPECT_NEAR(reading.newest->intervals[0]->upper, expected.upper, 1e-12);
  EXPECT_LE(expected.upper, kCoverageLimit);
  EXPECT_EQ(reading.status, LimitStatus::kOverLimit);
  // It stays right for some time, and is off again.
  CoverageWatch again = watch;
  auto row = static_cast<std::int64_t>(n);
  for (const ForecastRow& one : RowsOf(*cells, 8000, 0, 1, 44)) again.Add(one, ++row);
  for (const ForecastRow& one : RowsOf(*cells, 2048, 0, 3, 43)) again.Add(one, ++row);
  EXPECT_FALSE(again.Snapshot().Read().recovered);
  EXPECT_NEAR(static_cast<double>(again.Snapshot().OverAgainSince().value_or(0)),
              static_cast<double>(n) + 8000, 1100);
  watch.Acknowledge(static_cast<std::int64_t>(n));
  EXPECT_FALSE(watch.Snapshot().acknowledged);
  EXPECT_EQ(watch.Snapshot().limit, kCoverageLimit);
  // What was known stays until a row follows.
  ASSERT_TRUE(watch.Snapshot().Read().newest.has_value());
  EXPECT_EQ(watch.Snapshot().Read().newest->intervals[0]->upper,
            reading.newest->intervals[0]->upper);
  watch.Add(good.front(), static_cast<std::int64_t>(n) + 1);
  EXPECT_FALSE(watch.Snapshot().Read().newest.has_value());
}

TEST(CoverageMeasureTest, ARecoveryBeginsAfterTheDatedChange) {
  const auto cells = CellsOf(NormalForecasts{});
  std::vector<ForecastRow> rows = RowsOf(*cells, 3000, 0, 2.5, 45);
  const std::vector<ForecastRow> good = RowsOf(*cells, 20000, 0, 1, 46);
  rows.insert(rows.end(), good.begin(), good.end());
  CoverageWatch watch = WatchOf(cells);
  watch.SetLimit(0.12, 0);
  int recovered = 0;
  for (std::size_t i = 0; i < rows.size(); ++i) {
    watch.Add(rows[i], static_cast<std::int64_t>(i) + 1);
    if (i % 500 != 0) continue;
    const ErrorSnapshot snapshot = watch.Snapshot();
    if (!snapshot.Read().recovered) continue;
    ++recovered;
    EXPECT_GE(snapshot.ChangedUntil(), 3000);
    EXPECT_GT(snapshot.Read().newest->first_observation, snapshot.ChangedUntil());
  }
  EXPECT_LE(watch.Snapshot().over_at, 2048) << "a stretch that begins there has 952 bad rows";
  EXPECT_GT(recovered, 20);
}

TEST(CoverageMeasureTest, AGroupHasNoRecentError) {
  const auto cells = CellsOf(NormalForecasts{});
  CoverageWatch watch = WatchOf(cells, CoverageMeasure::Of::kGroup);
  std::int64_t i = 0;
  for (const ForecastRow& row : Changing(*cells, 4000, 5000, 0, 1.5)) watch.Add(row, ++i);
  EXPECT_FALSE(watch.TakeCrossing().has_value());
  EXPECT_TRUE(CoverageIn(watch)->marks->empty());
  EXPECT_FALSE(watch.Snapshot().Read().newest.has_value());
  store::v1::ErrorState state;
  watch.Save(state);
  EXPECT_EQ(state.forecast_marks_size(), 0);
}

TEST(CoverageMeasureTest, AnAlarmOfAGroupOfForecastsRecovers) {
  const auto cells = CellsOf(NormalForecasts{});
  const auto saved = [](const CoverageWatch& watch) {
    store::v1::ErrorState state;
    watch.Save(state);
    return state;
  };
  std::vector<ForecastRow> rows = RowsOf(*cells, 3000, 0, 3, 41);
  const std::vector<ForecastRow> good = RowsOf(*cells, 60000, 0, 1, 42);
  rows.insert(rows.end(), good.begin(), good.end());
  CoverageWatch watch = WatchOf(cells, CoverageMeasure::Of::kGroup);
  for (std::size_t i = 0; i < rows.size(); ++i) {
    watch.Add(rows[i], static_cast<std::int64_t>(i) + 1);
    watch.SetTime(ErrorStretch::Time(std::chrono::seconds(i)));
    if (i % 9999 != 100 && i != 3500) continue;
    const store::v1::ErrorState state = saved(watch);
    CoverageWatch restored = WatchOf(cells, CoverageMeasure::Of::kGroup);
    ASSERT_TRUE(restored.Restore(state).ok());
    EXPECT_EQ(saved(restored).SerializeAsString(), state.SerializeAsString());
    if (i == 3500) watch = restored;
  }
  ASSERT_TRUE(watch.Snapshot().over);
  const ErrorReading reading = watch.Snapshot().Read();
  ASSERT_TRUE(reading.recovered);
  EXPECT_LE(reading.newest->intervals[0]->upper, kCoverageLimit);
  EXPECT_TRUE(reading.newest->start_time.has_value());
  EXPECT_LE(saved(watch).forecast_marks_size(), 23);
  watch.Acknowledge(static_cast<std::int64_t>(rows.size()));
  EXPECT_FALSE(watch.Snapshot().acknowledged);
  EXPECT_EQ(saved(watch).forecast_marks_size(), 0);
}

TEST(CoverageMeasureTest, MarksOfForecastsAreFewerTheOlderTheyAre) {
  const auto cells = CellsOf(NormalForecasts{});
  CoverageWatch watch = WatchOf(cells);
  std::int64_t i = 0;
  for (const ForecastRow& row : RowsOf(*cells, 100 * kSpacing, 0, 1, 5)) watch.Add(row, ++i);
  std::vector<std::int64_t> marks;
  for (const CoverageMark& mark : *CoverageIn(watch)->marks) marks.push_back(mark.index);
  EXPECT_THAT(marks, ElementsAre(32, 48, 64, 72, 80, 88, 92, 93, 94, 95, 96, 97, 98, 99, 100));
}

TEST(CoverageMeasureTest, RefusesImpossibleMarks) {
  const auto cells = CellsOf(NormalForecasts{});
  CoverageWatch watch = WatchOf(cells);
  std::int64_t i = 0;
  for (const ForecastRow& row : RowsOf(*cells, 1000, 0, 1, 6)) watch.Add(row, ++i);
  store::v1::ErrorState saved;
  watch.Save(saved);
  const auto refused = [&](const auto& damage,
                           CoverageMeasure::Of of = CoverageMeasure::Of::kModel) {
    store::v1::ErrorState state = saved;
    damage(state);
    CoverageWatch restored = WatchOf(cells, of);
    return !restored.Restore(state).ok();
  };
  ASSERT_EQ(saved.forecast_marks_size(), 3);
  EXPECT_FALSE(refused([](auto&) {}));
  EXPECT_TRUE(refused([](auto&) {}, CoverageMeasure::Of::kGroup));
  EXPECT_TRUE(refused([](auto& state) { state.mutable_forecast_marks()->SwapElements(0, 1); }));
  EXPECT_TRUE(
      refused([](auto& state) { state.mutable_forecast_marks(0)->set_first_observation(0); }));
  EXPECT_TRUE(refused([](auto& state) {
    auto& counts = *state.mutable_forecast_marks(0)->mutable_sums()->mutable_cells();
    counts.Set(5, counts.Get(5) + 1);
  }));
  EXPECT_TRUE(refused([](auto& state) {
    auto& counts = *state.mutable_forecast_marks(0)->mutable_sums()->mutable_cells();
    counts.Set(0, counts.Get(0) + kSpacing);
  }));
  EXPECT_TRUE(refused([](auto& state) {
    state.mutable_forecast_marks(0)->mutable_sums()->mutable_cells()->RemoveLast();
  }));
  EXPECT_TRUE(refused(
      [](auto& state) { state.mutable_forecast_marks(0)->mutable_sums()->set_t(std::nan("")); }));
  EXPECT_TRUE(refused([](auto& state) { state.mutable_forecasts_since_mark()->add_cells(1); }));
  EXPECT_TRUE(refused(
      [](auto& state) { state.mutable_forecasts_since_mark()->set_t_square(std::nan("")); }));
}

}  // namespace
}  // namespace calibd::server
