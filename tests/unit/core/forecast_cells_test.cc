#include "calibd/core/forecast_cells.h"

#include <gtest/gtest.h>

#include <cmath>
#include <filesystem>
#include <limits>
#include <numeric>
#include <vector>

#include "base/rng.h"
#include "calibd/core/evidence.h"
#include "support/test_data.h"

namespace calibd {
namespace {

using nlohmann::json;

const double kInfinite = std::numeric_limits<double>::infinity();

std::shared_ptr<const ForecastCells> CellsOf(const NumberForecastKind& kind,
                                             std::uint64_t seed = 1) {
  return *ForecastCells::Create(kind, {}, seed, kDefaultTolerance);
}

std::vector<ForecastRow> Described(const ForecastCells& cells, const std::vector<double>& forecasts,
                                   const std::vector<double>& outcomes,
                                   std::int64_t first_observation = 1) {
  std::vector<ForecastRow> rows(outcomes.size());
  cells.Describe({.forecasts = forecasts, .outcomes = outcomes}, first_observation, rows);
  return rows;
}

std::vector<json> ForecastCases() {
  std::vector<json> cases;
  for (const json& small :
       testing::ReadJson(std::filesystem::path(CALIBD_GOLDEN_DIR) / "small_cases_34.json")) {
    if (small.at("kind") == "forecast") cases.push_back(small);
  }
  return cases;
}

TEST(ForecastCellsTest, NormalForecastsHaveTheCellsAndScoresOfTheReference) {
  const auto cells = CellsOf(NormalForecasts{});
  ASSERT_EQ(cells->cell_count(), 24);
  for (const json& small : ForecastCases()) {
    std::vector<double> forecasts;
    const std::vector<double> outcomes = small.at("y");
    for (std::size_t i = 0; i < outcomes.size(); ++i) {
      forecasts.push_back(small.at("mean").at(i));
      forecasts.push_back(small.at("standard_deviation").at(i));
    }
    double crps = 0;
    double log_score = 0;
    std::vector<int> found;
    for (const ForecastRow& row : Described(*cells, forecasts, outcomes)) {
      found.push_back(row.cell);
      crps += row.crps / static_cast<double>(outcomes.size());
      log_score += row.log_score / static_cast<double>(outcomes.size());
    }
    EXPECT_EQ(found, small.at("pit_cell").get<std::vector<int>>()) << small.at("name");
    EXPECT_LT(testing::RelativeDifference(crps, small.at("mean_crps")), 1e-9);
    EXPECT_LT(testing::RelativeDifference(log_score, small.at("mean_log_loss")), 1e-9);
  }
}

TEST(ForecastCellsTest, SamplesHaveTheRanksAndScoresOfTheReference) {
  int checked = 0;
  for (const json& small : ForecastCases()) {
    if (!small.contains("samples")) continue;
    const json& samples = small.at("samples");
    const std::vector<double> outcomes = small.at("y");
    std::vector<double> forecasts;
    for (const auto& row : samples.at("samples")) {
      for (const auto& draw : row) forecasts.push_back(draw);
    }
    const auto cells = CellsOf(SampleForecasts{samples.at("samples").at(0).size()});
    const std::vector<ForecastRow> rows = Described(*cells, forecasts, outcomes);
    double crps = 0;
    for (std::size_t i = 0; i < rows.size(); ++i) {
      // The reference does not draw among ties.
      const std::size_t r = cells->width();
      std::size_t ties = 0;
      for (std::size_t s = 0; s < r; ++s) ties += forecasts[i * r + s] == outcomes[i] ? 1U : 0U;
      const std::size_t rank = samples.at("rank").at(i);
      EXPECT_GE(rows[i].cell, rank);
      EXPECT_LE(rows[i].cell, rank + ties);
      crps += rows[i].crps / static_cast<double>(rows.size());
    }
    EXPECT_LT(testing::RelativeDifference(crps, samples.at("mean_crps")), 1e-9);
    ++checked;
  }
  EXPECT_EQ(checked, 2);
}

TEST(ForecastCellsTest, ValuesAreRight) {
  const auto cells = CellsOf(NormalForecasts{});
  for (const json& small :
       testing::ReadJson(std::filesystem::path(CALIBD_GOLDEN_DIR) / "small_cases_34.json")) {
    if (small.at("kind") != "evidence") continue;
    for (std::size_t c = 0; c < 24; ++c) {
      EXPECT_NEAR(cells->smoothed()[c], small.at("smoothed").at(c), 1e-12);
    }
    for (std::size_t e = 0; e < 23; ++e) {
      EXPECT_NEAR(cells->edges()[e], small.at("edges").at(e), 1e-15);
    }
  }
  EXPECT_EQ(LocationScaleOf(0), (LocationScale{-.5, .5}));
  EXPECT_EQ(LocationScaleOf(33), (LocationScale{0, .9}));
  EXPECT_EQ(LocationScaleOf(34), (LocationScale{0, 1.11}));
  EXPECT_EQ(LocationScaleOf(68), (LocationScale{.5, 3}));
}

std::vector<NumberForecastKind> ManyKinds() {
  std::vector<double> levels;
  for (int k = 1; k < 64; ++k) levels.push_back(k / 64.0);
  return {NormalForecasts{},
          QuantileForecasts{{.5}},
          QuantileForecasts{{1e-300, .1, 1 - 1e-16}},
          QuantileForecasts{levels},
          SampleForecasts{2},
          SampleForecasts{19},
          SampleForecasts{63},
          SampleForecasts{64},
          SampleForecasts{100},
          SampleForecasts{1000}};
}

TEST(ForecastCellsTest, BetsHaveTheMeanOne) {
  for (const NumberForecastKind& kind : ManyKinds()) {
    for (const double tolerance : {kMinTolerance, kDefaultTolerance, kMaxTolerance}) {
      const auto cells = *ForecastCells::Create(kind, {}, 1, tolerance);
      const auto count = static_cast<double>(cells->cell_count());
      EXPECT_LE(cells->cell_count(), 64);
      EXPECT_EQ(cells->edges().size() + 1, cells->cell_count());
      double total = 0;
      for (std::size_t c = 0; c < cells->cell_count(); ++c) {
        total += cells->probabilities()[c];
        EXPECT_NEAR(cells->smoothed()[c] * (1 + tolerance),
                    cells->probabilities()[c] + tolerance / count, 1e-15);
      }
      EXPECT_NEAR(total, 1, 1e-12);
      for (std::size_t j = 0; j < kLocationScaleCount; ++j) {
        double mean = 0;
        for (std::size_t c = 0; c < cells->cell_count(); ++c) {
          EXPECT_TRUE(std::isfinite(cells->LogBet(j, c)));
          EXPECT_NEAR(cells->bets()[c * ForecastCells::kPaddedBets + j],
                      std::exp(cells->LogBet(j, c)), 1e-12 * std::exp(cells->LogBet(j, c)));
          mean += cells->smoothed()[c] * std::exp(cells->LogBet(j, c));
        }
        EXPECT_NEAR(mean, 1 / (1 + tolerance), 1e-12);
      }
    }
  }
}

TEST(ForecastCellsTest, CellsOfSamplesHaveTheirProbabilities) {
  for (const std::size_t draws : {2U, 19U, 63U, 64U, 99U, 1000U}) {
    const auto cells = CellsOf(SampleForecasts{draws});
    std::vector<double> forecasts(draws);
    std::iota(forecasts.begin(), forecasts.end(), 0);
    std::vector<double> shares(cells->cell_count());
    std::size_t previous = 0;
    for (std::size_t rank = 0; rank <= draws; ++rank) {
      const ForecastRow row =
          Described(*cells, forecasts, {static_cast<double>(rank) - 0.5}).front();
      ASSERT_LT(row.cell, cells->cell_count());
      EXPECT_GE(row.cell, previous);
      previous = row.cell;
      shares[row.cell] += 1 / static_cast<double>(draws + 1);
    }
    for (std::size_t c = 0; c < shares.size(); ++c) {
      EXPECT_NEAR(shares[c], cells->probabilities()[c], 1e-12) << draws << " " << c;
    }
    if (draws + 1 <= 64) {
      EXPECT_EQ(cells->cell_count(), draws + 1);
    }
  }
}

TEST(ForecastCellsTest, TiesOfSamplesAreBrokenUniformly) {
  const auto cells = CellsOf(SampleForecasts{4}, 7);
  const std::vector<double> forecasts = {1, 2, 2, 3};
  std::array<int, 5> counts{};
  constexpr int kRows = 30000;
  for (int i = 0; i < kRows; ++i) {
    ++counts[Described(*cells, forecasts, {2}, i).front().cell];
  }
  EXPECT_EQ(counts[0], 0);
  EXPECT_EQ(counts[4], 0);
  // Five standard deviations of a share of 1/3.
  for (const int count : {counts[1], counts[2], counts[3]}) {
    EXPECT_NEAR(count, kRows / 3, 5 * std::sqrt(kRows * 2 / 9.0));
  }
  // The same observation always has the same rank; another seed draws others.
  const auto other = CellsOf(SampleForecasts{4}, 8);
  int differ = 0;
  for (int i = 0; i < 100; ++i) {
    const int cell = Described(*cells, forecasts, {2}, i).front().cell;
    EXPECT_EQ(cell, Described(*CellsOf(SampleForecasts{4}, 7), forecasts, {2}, i).front().cell);
    differ += cell != Described(*other, forecasts, {2}, i).front().cell ? 1 : 0;
  }
  EXPECT_GT(differ, 40);
}

TEST(ForecastCellsTest, QuantileOnAnOutcomeGoesBelow) {
  const auto cells = CellsOf(QuantileForecasts{{.1, .5, .9}});
  const std::vector<double> quantiles = {-1, 0, 0};
  const auto cell = [&](double y) { return Described(*cells, quantiles, {y}).front().cell; };
  EXPECT_EQ(cell(-2), 0);
  EXPECT_EQ(cell(-1), 0);
  EXPECT_EQ(cell(-.5), 1);
  EXPECT_EQ(cell(0), 1);
  EXPECT_EQ(cell(1e-300), 3);
  // Twice the mean pinball loss of y = 1: (2 (.1) + 1 (.5) + 1 (.9)) / 3 * 2.
  EXPECT_NEAR(Described(*cells, quantiles, {1}).front().crps, 2 * 1.6 / 3, 1e-12);
}

TEST(ForecastCellsTest, ExtremeValuesAreFinite) {
  const double most = std::numeric_limits<double>::max();
  const auto check = [](const NumberForecastKind& kind, const std::vector<double>& row, double y) {
    ASSERT_FALSE(FindForecastViolation(kind, row).has_value());
    ASSERT_FALSE(FindOutcomeViolation(kind, row, y).has_value());
    EXPECT_TRUE(std::isfinite(ForecastScale(kind, row)));
    EXPECT_TRUE(std::isfinite(ForecastLocation(kind, row)));
    const ForecastRow described = Described(*CellsOf(kind), row, {y}).front();
    EXPECT_LE(described.crps, kMostScore);
    EXPECT_GE(described.crps, -kMostScore);
    EXPECT_LE(described.log_score, kMostScore);
  };
  check(NormalForecasts{}, {0, kMinStandardDeviation}, 1e7);
  check(NormalForecasts{}, {0, kMinStandardDeviation}, 0);
  check(NormalForecasts{}, {0, most}, most);
  check(NormalForecasts{}, {0, 1}, -most);
  check(QuantileForecasts{{.2, .5, .8}}, {-most, 0, most}, most);
  check(QuantileForecasts{{.2}}, {most}, -most);
  check(SampleForecasts{2}, {-most, most}, most);
  check(SampleForecasts{3}, {most, most, most}, most);
  check(SampleForecasts{3}, {-5e307, 0, 5e307}, 0);
  EXPECT_EQ(ForecastScale(SampleForecasts{3}, std::vector<double>{5, 5, 5}), 0);
  EXPECT_NEAR(ForecastScale(SampleForecasts{3}, std::vector<double>{1e200, 2e200, 3e200}) / 1e200,
              1, 1e-12);
}

TEST(ForecastCellsTest, StrataEdgesAreQuartiles) {
  // numpy.quantile of [3, 1, 4, 1.5, 9, 2.6] at .25, .5, .75, for the standard deviations; and of
  // the means 0 .. 5.
  const std::vector<double> forecasts = {0, 3, 1, 1, 2, 4, 3, 1.5, 4, 9, 5, 2.6};
  const ForecastStrata strata = StrataOfForecasts(NormalForecasts{}, forecasts);
  EXPECT_EQ(strata.edges[0], (StratumEdges{1.775, 2.8, 3.75}));
  EXPECT_EQ(strata.edges[1], (StratumEdges{1.25, 2.5, 3.75}));
  // A value on an edge goes below it; with equal forecasts all go to the first stratum.
  const std::vector<double> equal = {2, .1, 2, .1, 2, .1, 2, .1, 2, .1, 2, .1, 2, .1};
  const ForecastStrata edges = StrataOfForecasts(NormalForecasts{}, equal);
  const auto cells = *ForecastCells::Create(NormalForecasts{}, edges, 1, kDefaultTolerance);
  EXPECT_EQ(Described(*cells, {2, .1}, {0}).front().strata,
            (std::array<std::uint8_t, kStratumKinds>{0, 0}));
  EXPECT_EQ(Described(*cells, {3, .2}, {0}).front().strata,
            (std::array<std::uint8_t, kStratumKinds>{3, 3}));
  EXPECT_EQ(Described(*cells, {1, .2}, {0}).front().strata,
            (std::array<std::uint8_t, kStratumKinds>{3, 0}));
  EXPECT_EQ(StrataOfForecasts(QuantileForecasts{{.2, .4, .6}}, std::vector<double>{1, 2, 4}),
            (ForecastStrata{{StratumEdges{3, 3, 3}, StratumEdges{2, 2, 2}}}));
  EXPECT_EQ(StrataOfForecasts(SampleForecasts{2}, std::vector<double>{1, 3}).edges[1][0], 2);
}

// Given the draws and the outcome together, the rank is uniform; given the draws alone it is not.
TEST(ForecastCellsTest, StrataOfSamplesIncludeTheOutcome) {
  ForecastStrata strata;
  strata.edges = {StratumEdges{1, 2, 3}, StratumEdges{1, 2, 3}};
  const auto cells = *ForecastCells::Create(SampleForecasts{3}, strata, 1, kDefaultTolerance);
  const auto strata_of = [&](double a, double b, double c, double y) {
    return Described(*cells, {a, b, c}, {y}).front().strata;
  };
  using Strata = std::array<std::uint8_t, kStratumKinds>;
  EXPECT_EQ(strata_of(1.9, 2.0, 2.1, 2.0), (Strata{0, 1}));
  // The mean is 2.75, and the standard deviation 1.5.
  EXPECT_EQ(strata_of(2, 2, 2, 5), (Strata{1, 2}));
  EXPECT_EQ(strata_of(2, 5, 2, 2), (Strata{1, 2}));
  EXPECT_EQ(strata_of(2, 2, 2, 14), (Strata{3, 3}));
}

TEST(ForecastCellsTest, NamesWhatIsInvalid) {
  EXPECT_EQ(CheckForecastKind(QuantileForecasts{{}}).message(),
            "levels has 0 values, expected 1..63");
  EXPECT_EQ(CheckForecastKind(QuantileForecasts{{.5, .5}}).message(),
            "levels[1] is 0.5, expected increasing numbers strictly between 0 and 1");
  EXPECT_FALSE(CheckForecastKind(QuantileForecasts{{0}}).ok());
  EXPECT_FALSE(CheckForecastKind(QuantileForecasts{{std::nan("")}}).ok());
  EXPECT_EQ(CheckForecastKind(SampleForecasts{1}).message(), "draws is 1, expected 2..1000");
  EXPECT_FALSE(CheckForecastKind(SampleForecasts{1001}).ok());
  const std::vector<double> decreasing = {1, 3, 2};
  const auto violation = FindForecastViolation(QuantileForecasts{{.2, .4, .6}}, decreasing);
  EXPECT_EQ(violation->field, "forecasts");
  EXPECT_EQ(violation->column, 2);
  EXPECT_EQ(
      violation->description,
      "is 2, expected at least 3, the quantile before it; separate models of the quantiles may "
      "cross: sort each row");
  EXPECT_EQ(FindForecastViolation(NormalForecasts{}, std::vector<double>{0, 0})->field,
            "standard_deviation");
  EXPECT_EQ(FindForecastViolation(NormalForecasts{}, std::vector<double>{kInfinite, 1})->field,
            "mean");
  EXPECT_EQ(FindOutcomeViolation(NormalForecasts{}, std::vector<double>{0, 1e-300}, 1e10)->field,
            "outcome");
  EXPECT_FALSE(ForecastCells::Create(NormalForecasts{}, {}, 1, 0).ok());
  ForecastStrata strata;
  strata.edges[1] = {2, 1, 3};
  EXPECT_FALSE(ForecastCells::Create(NormalForecasts{}, strata, 1, kDefaultTolerance).ok());
}

// For an outcome that is exchangeable with the draws, every cell has its probability.
TEST(ForecastCellsTest, ExchangeableDrawsAreCalibrated) {
  constexpr std::size_t kDraws = 80;
  constexpr int kRows = 20000;
  const auto cells = CellsOf(SampleForecasts{kDraws});
  Rng rng(3);
  std::vector<int> counts(cells->cell_count());
  std::vector<double> draws(kDraws);
  for (int i = 0; i < kRows; ++i) {
    // Integers below 12 have many ties.
    for (double& draw : draws) draw = rng.Below(12);
    ++counts[Described(*cells, draws, {static_cast<double>(rng.Below(12))}, i).front().cell];
  }
  double chi_square = 0;
  for (std::size_t c = 0; c < counts.size(); ++c) {
    const double expected = kRows * cells->probabilities()[c];
    chi_square += (counts[c] - expected) * (counts[c] - expected) / expected;
  }
  // Five standard deviations.
  const auto freedom = static_cast<double>(counts.size() - 1);
  EXPECT_NEAR(chi_square, freedom, 5 * std::sqrt(2 * freedom));
}

}  // namespace
}  // namespace calibd
