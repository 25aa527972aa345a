#include "calibd/core/forecast_coverage.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <numbers>
#include <vector>

#include "base/rng.h"
#include "calibd/core/error_interval.h"
#include "calibd/core/evidence.h"

namespace calibd {
namespace {

std::shared_ptr<const ForecastCells> CellsToCover(const NumberForecastKind& kind) {
  return *ForecastCells::Create(kind, {}, 1, kDefaultTolerance);
}

// Counts with as many observations in each cell.
ForecastCounts CountsOf(const std::vector<std::int64_t>& cells) {
  ForecastCounts counts(cells.size());
  for (std::size_t c = 0; c < cells.size(); ++c) {
    ForecastRow row;
    row.cell = static_cast<std::uint8_t>(c);
    for (std::int64_t i = 0; i < cells[c]; ++i) {
      row.strata[0] = static_cast<std::uint8_t>(i % 4);
      counts.Add(row);
    }
  }
  return counts;
}

// The largest difference between the share of a set of cells and its probability, by all sets.
double LargestDifference(const std::vector<double>& shares, const std::vector<double>& stated) {
  double largest = 0;
  for (std::size_t set = 0; set < std::size_t{1} << shares.size(); ++set) {
    double difference = 0;
    for (std::size_t c = 0; c < shares.size(); ++c) {
      if ((set >> c & 1) != 0) difference += shares[c] - stated[c];
    }
    largest = std::max(largest, difference);
  }
  return largest;
}

TEST(ForecastCoverageTest, ErrorIsTheLargestDifferenceOfAnySetOfCells) {
  const auto cells = CellsToCover(QuantileForecasts{{.1, .3, .5, .9}});
  const ForecastCoverage coverage = *CoverageOf(*cells, CountsOf({30, 10, 20, 100, 40}), {});
  EXPECT_EQ(coverage.count, 200);
  EXPECT_EQ(coverage.error.cell_count, 5);
  EXPECT_NEAR(coverage.error.estimate,
              LargestDifference({.15, .05, .1, .5, .2}, {.1, .2, .2, .4, .1}), 1e-12);
  // sqrt((t/4 + 50) (2 log(2^4 / alpha) + log((t/4 + 50) / 50))) / t.
  const double margin = std::sqrt(100 * (2 * std::log(16 / .025) + std::log(2))) / 200;
  EXPECT_NEAR(CoverageErrorMargin(200, 5, .025), margin, 1e-12);
  EXPECT_EQ(coverage.error.lower, std::max(0.0, coverage.error.estimate - margin));
  EXPECT_EQ(coverage.error.upper, coverage.error.estimate + margin);
}

TEST(ForecastCoverageTest, NormalCellsAreTwenty) {
  const auto cells = CellsToCover(NormalForecasts{});
  std::vector<std::int64_t> counts(24, 5);
  // The first three cells are below .05, the last three above .95.
  counts[0] = 100;
  const ForecastCoverage coverage = *CoverageOf(*cells, CountsOf(counts), {});
  EXPECT_EQ(coverage.error.cell_count, 20);
  const double n = 100 + 23 * 5;
  EXPECT_NEAR(coverage.error.estimate, (110 / n - .05 + std::max(0.0, 15 / n - .05)), 1e-12);
}

TEST(ForecastCoverageTest, CentralIntervalsAreBinarySeries) {
  const auto cells = CellsToCover(NormalForecasts{});
  std::vector<std::int64_t> counts(24, 0);
  counts[11] = 600;
  counts[2] = 100;
  counts[23] = 300;
  const ForecastCoverage coverage =
      *CoverageOf(*cells, CountsOf(counts), {.error = .01, .central = .03});
  const double expected[] = {.6, .6, .6};
  for (std::size_t i = 0; i < 3; ++i) {
    const CentralCoverage& central = coverage.central[i].value();
    const double p = kCentralProbabilities[i];
    EXPECT_EQ(central.nominal, p);
    EXPECT_NEAR(central.promised, p, 1e-12);
    EXPECT_NEAR(central.lower_level, (1 - p) / 2, 1e-12);
    EXPECT_NEAR(central.coverage, expected[i], 1e-12);
    // One bin of x = promised - [inside], as of the interval of the binned error.
    ReliabilitySums sums;
    for (int k = 0; k < 1000; ++k) sums.Add(p, k < 600);
    const ErrorInterval interval = *BinnedErrorInterval(sums, {.bins = .01, .gap = .01});
    EXPECT_NEAR(central.lower, p - interval.gap_upper, 1e-9);
    EXPECT_NEAR(central.upper, p - interval.gap_lower, 1e-9);
  }
}

TEST(ForecastCoverageTest, CentralIntervalsEndAtTheNearestLevels) {
  const auto promised = [](const NumberForecastKind& kind) {
    const auto cells = CellsToCover(kind);
    std::vector<double> values;
    const ForecastCoverage coverage =
        *CoverageOf(*cells, CountsOf(std::vector<std::int64_t>(cells->cell_count(), 3)), {});
    for (const auto& central : coverage.central) {
      values.push_back(central ? std::round(1e6 * central->promised) / 1e6 : -1);
    }
    return values;
  };
  using Values = std::vector<double>;
  EXPECT_EQ(promised(QuantileForecasts{{.05, .1, .25, .5, .75, .9, .95}}), (Values{.5, .8, .9}));
  // All are nearest to .1 and .9, which promise 80 %.
  EXPECT_EQ(promised(QuantileForecasts{{.1, .5, .9}}), (Values{-1, .8, -1}));
  EXPECT_EQ(promised(QuantileForecasts{{.5}}), (Values{-1, -1, -1}));
  EXPECT_EQ(promised(QuantileForecasts{{.6, .9}}), (Values{-1, -1, -1}));
  // .2 and .3 are equally near to .25.
  EXPECT_EQ(promised(QuantileForecasts{{.2, .3, .7, .8}}), (Values{.6, -1, -1}));
  EXPECT_EQ(promised(SampleForecasts{19}), (Values{.5, .8, .9}));
  EXPECT_EQ(promised(SampleForecasts{999}), (Values{.5, .8, .9}));
  EXPECT_EQ(promised(SampleForecasts{2}), (Values{.333333, -1, -1}));
}

TEST(ForecastCoverageTest, SamplesHaveAtMostTwentyCells) {
  for (const std::size_t draws : {2U, 5U, 19U, 50U, 1000U}) {
    const auto cells = CellsToCover(SampleForecasts{draws});
    std::vector<std::int64_t> counts(cells->cell_count(), 1);
    const ForecastCoverage coverage = *CoverageOf(*cells, CountsOf(counts), {});
    EXPECT_EQ(coverage.error.cell_count, std::min<std::size_t>(20, draws + 1));
    EXPECT_GE(coverage.error.estimate, 0);
  }
}

TEST(ForecastCoverageTest, ForeseesHowManyObservationsDecide) {
  const auto cells = CellsToCover(QuantileForecasts{{.1, .5, .9}});
  // The noise is small against a margin at this level.
  const CoverageLevels levels{.error = 1e-12};
  const auto foresee = [&](const std::vector<std::int64_t>& counts, double limit,
                           std::int64_t least = 100) {
    return ForeseeCoverageDecision(*cells, CountsOf(counts), levels, limit, least);
  };
  // The error is .1 and nearly all of it is no noise: the number of observations whose interval
  // ends at the limit is within the range.
  const std::vector<std::int64_t> off = {2000, 3000, 4000, 1000};
  for (const double limit : {.065, .135}) {
    const auto range = foresee(off, limit);
    ASSERT_TRUE(range.has_value()) << limit;
    double n = 10000;
    while (CoverageErrorMargin(n, 4, levels.error) > .035) n *= 1.001;
    EXPECT_LT(static_cast<double>(10000 + range->lower), n) << limit;
    EXPECT_GT(static_cast<double>(10000 + range->upper), n) << limit;
    EXPECT_LE(range->upper + 10000, 4.3 * static_cast<double>(range->lower + 10000)) << limit;
  }
  // At the limit itself nothing is foreseeable, nor with few observations or without any.
  EXPECT_FALSE(foresee(off, .1).has_value());
  EXPECT_FALSE(foresee({101, 399, 400, 99}, .05).has_value());
  EXPECT_FALSE(foresee({0, 0, 0, 0}, .05).has_value());
  // One observation more is enough.
  EXPECT_TRUE(foresee({101, 399, 401, 99}, .15).has_value());
  // Decided, but for the least number of observations.
  const auto late = foresee({900, 50, 50, 0}, .05, 5000);
  ASSERT_TRUE(late.has_value());
  EXPECT_EQ(late->lower, 4000);
  EXPECT_EQ(late->upper, 4000);
}

// The bound of Hoeffding for all 2^d - 2 sets of cells, and for both sides of each interval.
TEST(ForecastCoverageTest, OneLookIsNarrower) {
  const auto cells = CellsToCover(QuantileForecasts{{.1, .3, .5, .9}});
  const ForecastCounts counts = CountsOf({30, 10, 20, 100, 40});
  const ForecastCoverage one = *CoverageOf(*cells, counts, {.one_look = true});
  const ForecastCoverage all = *CoverageOf(*cells, counts, {});
  const double margin = std::sqrt(std::log(30 / .025) / 400);
  EXPECT_NEAR(OneLookCoverageErrorMargin(200, 5, .025), margin, 1e-12);
  EXPECT_EQ(one.error.estimate, all.error.estimate);
  EXPECT_NEAR(one.error.upper, one.error.estimate + margin, 1e-12);
  EXPECT_NEAR(one.error.lower, one.error.estimate - margin, 1e-12);
  EXPECT_LT(margin, CoverageErrorMargin(200, 5, .025) / 1.25);
  // 80 % promised, 130 of 200 inside: half of the rows are above the variance that is expected.
  const double k = std::log(6 / .025);
  const double width = OneLookBoundary(200, 200 * .8 * .2, k, .5)(130 * .04 + 70 * .64, k) / 200;
  EXPECT_NEAR(one.widest()->promised, .8, 1e-12);
  EXPECT_NEAR(one.widest()->upper - one.widest()->coverage, width, 1e-12);
  EXPECT_LT(width, all.widest()->upper - all.widest()->coverage);
  // A monitor has half of the level. Nearly all outcomes are inside, so the variance is far less
  // than that of calibrated forecasts.
  const ForecastCounts inside = CountsOf({0, 0, 990, 1000, 10});
  const ForecastCoverage look = *CoverageOf(*cells, inside, {.one_look = true});
  const ForecastCoverage monitor = *CoverageOf(*cells, inside, {.error = .0125, .central = .0125});
  EXPECT_LE(look.widest()->upper, monitor.widest()->upper + 1e-12);
  EXPECT_GE(look.widest()->lower, monitor.widest()->lower - 1e-12);
}

TEST(ForecastCoverageTest, IsUnsetWithoutObservations) {
  const auto cells = CellsToCover(NormalForecasts{});
  EXPECT_FALSE(CoverageOf(*cells, ForecastCounts(24), {}).has_value());
  std::vector<std::int64_t> counts(24, 0);
  counts[23] = 1;
  const ForecastCoverage one = *CoverageOf(*cells, CountsOf(counts), {});
  EXPECT_EQ(one.error.lower, 0);
  EXPECT_EQ(one.error.upper, 1);
  EXPECT_EQ(one.central[0]->lower, 0);
  EXPECT_EQ(one.central[0]->upper, 1);
}

}  // namespace
}  // namespace calibd
