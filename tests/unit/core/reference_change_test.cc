#include "calibd/core/reference_change.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <numeric>
#include <random>
#include <utility>
#include <vector>

namespace calibd {
namespace {

struct ReferenceRow {
  double stated = 0;
  bool wrong = false;
};

// Stated probabilities Beta(6, 1), with the odds of an error multiplied from one row on.
std::vector<ReferenceRow> ReferenceRows(int count, int change, double odds, std::uint64_t seed) {
  std::mt19937_64 rng(seed);
  std::uniform_real_distribution<double> uniform;
  std::vector<ReferenceRow> rows;
  for (int i = 0; i < count; ++i) {
    const double c = std::pow(uniform(rng), 1. / 6);
    const double o = (1 - c) / c * (i < change ? 1 : odds);
    rows.push_back({c, uniform(rng) < o / (1 + o)});
  }
  return rows;
}

constexpr ReferenceChange::Settings kSettings{
    .reference_rows = 1000, .significance_level = .05, .seed = 7, .first_observation = 1};

ReferenceChange WithRows(const std::vector<ReferenceRow>& rows,
                         const ReferenceChange::Settings& settings = kSettings) {
  ReferenceChange change(settings);
  for (const auto& [stated, wrong] : rows) change.Add(stated, wrong);
  return change;
}

// The uniform number of an observation: SplitMix64, written out.
double UniformOf(std::uint64_t seed, std::uint64_t number) {
  const auto next = [](std::uint64_t& state) {
    state += 0x9E3779B97F4A7C15ULL;
    std::uint64_t z = state;
    z = (z ^ (z >> 30)) * 0xBF58476D1CE4E5B9ULL;
    z = (z ^ (z >> 27)) * 0x94D049BB133111EBULL;
    return z ^ (z >> 31);
  };
  std::uint64_t state = seed;
  state = next(state) ^ (number * 0xD1342543DE82EF95ULL);
  state = next(state);
  return (static_cast<double>(next(state) >> 12) + .5) / 4503599627370496.0;
}

// What the definition says, with a sum over all starts, quadratic in the number of rows.
struct BruteForce {
  double e_value = 0;
  double share_of_more = 0;
  // The start with the largest weighted product of a bet, from 1.
  std::size_t start = 0;
};

BruteForce Define(const std::vector<ReferenceRow>& rows, const ReferenceChange::Settings& set) {
  const std::vector<double> edges{.5, .6, .7, .8, .85, .9, .95, .98};
  const auto cell_of = [&](double c) {
    return static_cast<std::size_t>(std::ranges::lower_bound(edges, c) - edges.begin());
  };
  std::vector<double> stated(9);
  std::vector<double> seen(9);
  std::vector<double> n(9);
  std::vector<double> w(9);
  // The cell and u of each later row.
  std::vector<std::pair<std::size_t, double>> later;
  for (std::size_t i = 0; i < rows.size(); ++i) {
    const std::size_t k = cell_of(rows[i].stated);
    if (i < 500) {
      stated[k] += 1 - rows[i].stated;
      seen[k] += 1;
      continue;
    }
    n[k] += 1;
    w[k] += rows[i].wrong ? 1 : 0;
    if (i < static_cast<std::size_t>(set.reference_rows)) continue;
    const double f = w[k] / n[k];
    const double uniform =
        UniformOf(set.seed, i + static_cast<std::uint64_t>(set.first_observation));
    later.emplace_back(k, rows[i].wrong ? uniform * f : f + uniform * (1 - f));
  }
  BruteForce result;
  double more = 0;
  double best = 0;
  for (const double a : {.75, 1., 1.5, 2., 3., 4.5}) {
    for (const double o : {.2, .33, .5, .67, 1.5, 2., 3., 5.}) {
      double product = 1;
      double wealth = 0;
      for (std::size_t j = later.size(); j >= 1; --j) {
        const auto& [k, u] = later[j - 1];
        const double z0 = std::clamp((stated[k] + .1) / (seen[k] + 1) * a, .001, .9);
        const double z1 = z0 * o / (1 - z0 + z0 * o);
        product *= u < z0 ? z1 / z0 : (1 - z1) / (1 - z0);
        const auto next = static_cast<double>(j + 1);
        const double part = product / (2.11 * next * std::log(next) * std::log(next));
        wealth += part;
        if (part > best) {
          best = part;
          result.start = j;
        }
      }
      result.e_value += wealth / 48;
      if (o > 1) more += wealth / 48;
    }
  }
  result.share_of_more = more / result.e_value;
  return result;
}

TEST(ReferenceChangeTest, AgreesWithTheDefinition) {
  for (const double odds : {1., 1.5, .6}) {
    const std::vector<ReferenceRow> rows = ReferenceRows(1400, 1200, odds, 3);
    ReferenceChange::Settings settings = kSettings;
    settings.first_observation = 12;
    const ReferenceChange change = WithRows(rows, settings);
    ASSERT_FALSE(change.changed());
    const auto reading = change.Read();
    const BruteForce expected = Define(rows, settings);
    EXPECT_NEAR(reading.e_value, expected.e_value, 1e-9 * expected.e_value);
    EXPECT_NEAR(reading.share_of_more, expected.share_of_more, 1e-9);
    EXPECT_EQ(reading.rows_before, 1000 + static_cast<std::int64_t>(expected.start) - 1);
    EXPECT_EQ(reading.rows_since + reading.rows_before, 1400);
    double wrong = 0;
    for (auto i = static_cast<std::size_t>(reading.rows_before); i < rows.size(); ++i) {
      wrong += rows[i].wrong ? 1 : 0;
    }
    EXPECT_EQ(reading.wrong_since, wrong);
  }
}

TEST(ReferenceChangeTest, AValueOnAnEdgeIsInTheCellBelow) {
  EXPECT_EQ(ReferenceChange::CellOf(0), 0U);
  std::size_t cell = 0;
  for (const double edge : ReferenceChange::kEdges) {
    EXPECT_EQ(ReferenceChange::CellOf(edge), cell);
    EXPECT_EQ(ReferenceChange::CellOf(std::nextafter(edge, 1)), ++cell);
  }
  EXPECT_EQ(ReferenceChange::CellOf(1 + 1e-9), ReferenceChange::kCells - 1);
}

// Of the rows of a cell with the newest one, a fixed number is wrong, and the newest one is any of
// them: then the wealth is on average what it was, and the weight of the new start.
TEST(ReferenceChangeTest, AFairGameKeepsTheMeanWealth) {
  const ReferenceChange before = WithRows(ReferenceRows(1300, 1300, 1, 5));
  constexpr double kStated = .88;
  constexpr int kDraws = 200000;
  const std::size_t cell = ReferenceChange::CellOf(kStated);
  const auto& pool = before.state().cells[cell];
  const double f = static_cast<double>(pool.wrong + 1) / static_cast<double>(pool.rows + 1);
  double sum = 0;
  double squares = 0;
  std::mt19937_64 rng(1);
  std::uniform_real_distribution<double> uniform;
  for (int i = 0; i < kDraws; ++i) {
    const bool wrong = uniform(rng) < f;
    ReferenceChange::Settings settings = kSettings;
    settings.seed = rng();
    ReferenceChange::State state = before.state();
    state.cells[cell].wrong += wrong ? 0 : 1;
    ReferenceChange after(settings, state);
    after.Add(kStated, wrong);
    const double value = after.Read().e_value;
    sum += value;
    squares += value * value;
  }
  const double mean = sum / kDraws;
  const double error = std::sqrt((squares / kDraws - mean * mean) / kDraws);
  const double weight = 1 / (2.11 * 302 * std::log(302) * std::log(302));
  EXPECT_NEAR(mean, before.Read().e_value + weight, 5 * error);
  EXPECT_LT(error, .01 * mean);
}

TEST(ReferenceChangeTest, SavedAtAnyRowItContinuesWithEqualBits) {
  const std::vector<ReferenceRow> rows = ReferenceRows(2600, 1500, 4, 9);
  const ReferenceChange whole = WithRows(rows);
  ASSERT_TRUE(whole.changed());
  ReferenceChange part(kSettings);
  for (std::size_t i = 0; i < rows.size(); ++i) {
    if (i % 97 == 0 || i == 499 || i == 500 || i == 999 || i == 1000) {
      ASSERT_TRUE(ReferenceChange::Fits(kSettings, part.state())) << i;
      part = ReferenceChange(kSettings, part.state());
    }
    part.Add(rows[i].stated, rows[i].wrong);
  }
  EXPECT_EQ(part.state(), whole.state());
  EXPECT_TRUE(ReferenceChange::Fits(kSettings, whole.state()));
}

TEST(ReferenceChangeTest, AnImpossibleStateDoesNotFit) {
  const ReferenceChange::State good = WithRows(ReferenceRows(1300, 1300, 1, 5)).state();
  ASSERT_TRUE(ReferenceChange::Fits(kSettings, good));
  const auto damaged = [&good](const auto& damage) {
    ReferenceChange::State state = good;
    damage(state);
    return ReferenceChange::Fits(kSettings, state);
  };
  using State = ReferenceChange::State;
  EXPECT_FALSE(damaged([](State& s) { ++s.rows; }));
  EXPECT_FALSE(damaged([](State& s) { s.bets = 301; }));
  EXPECT_FALSE(damaged([](State& s) { ++s.cells[3].warmup_rows; }));
  EXPECT_FALSE(damaged([](State& s) { s.cells[3].wrong = s.cells[3].rows + 1; }));
  EXPECT_FALSE(damaged([](State& s) { s.cells[3].reference_wrong = s.cells[3].wrong + 1; }));
  EXPECT_FALSE(damaged([](State& s) { s.cells[3].stated_errors = -1; }));
  EXPECT_FALSE(damaged([](State& s) { s.wealth[0] = -1; }));
  EXPECT_FALSE(damaged([](State& s) { s.wealth[0] = 1e13; }));
  EXPECT_FALSE(damaged([](State& s) { s.start[0] = 301; }));
  EXPECT_FALSE(damaged([](State& s) { s.start_wrong[0] = s.wrong_rows + 1; }));
  EXPECT_FALSE(damaged([](State& s) { s.changed_at = 1200; }));
}

TEST(ReferenceChangeTest, NamesTheDirectionAndIsHeld) {
  for (const double odds : {4., .1}) {
    const std::vector<ReferenceRow> rows = ReferenceRows(9000, 3000, odds, 4);
    ReferenceChange change = WithRows(rows);
    ASSERT_TRUE(change.changed());
    const ReferenceChange::Reading reading = change.Read();
    EXPECT_GE(reading.e_value, 20);
    EXPECT_LT(reading.e_value, 101);
    if (odds > 1) {
      EXPECT_GT(reading.share_of_more, .99);
      EXPECT_GT(reading.wrong_since, 1.5 * reading.expected_since);
    } else {
      EXPECT_LT(reading.share_of_more, .01);
      EXPECT_LT(reading.wrong_since, .5 * reading.expected_since);
    }
    EXPECT_NEAR(static_cast<double>(reading.rows_before), 3000, 400);
    const ReferenceChange::State held = change.state();
    EXPECT_GT(held.changed_at, 3000);
    change.Add(.7, true);
    change.RestartBets(.01);
    EXPECT_EQ(change.state(), held);
  }
}

TEST(ReferenceChangeTest, AllRightAndAllWrongAreNoChange) {
  for (const bool wrong : {false, true}) {
    ReferenceChange change(kSettings);
    for (int i = 0; i < 20000; ++i) change.Add(i % 2 == 0 ? 1 : .5, wrong);
    EXPECT_FALSE(change.changed());
    EXPECT_EQ(change.Read().reference_rows, 500);
    EXPECT_EQ(change.Read().reference_wrong, wrong ? 500 : 0);
    EXPECT_NEAR(change.Read().expected_since, change.Read().wrong_since, 1e-9);
  }
}

TEST(ReferenceChangeTest, NothingIsSaidBeforeTheReferenceEnds) {
  ReferenceChange change(kSettings);
  for (int i = 0; i < 1000; ++i) change.Add(.9, i >= 800);
  EXPECT_EQ(change.Read().bets, 0);
  EXPECT_EQ(change.Read().e_value, 0);
  EXPECT_EQ(change.Read().share_of_more, .5);
  EXPECT_EQ(change.Read().reference_rows, 500);
  EXPECT_EQ(change.Read().reference_wrong, 200);
}

TEST(ReferenceChangeTest, BetsBeginAnewWithTheSameReference) {
  ReferenceChange change = WithRows(ReferenceRows(1300, 1300, 1, 5));
  const auto reference = change.Read().reference_wrong;
  change.RestartBets(.001);
  EXPECT_EQ(change.Read().bets, 0);
  EXPECT_EQ(change.Read().e_value, 0);
  EXPECT_EQ(change.Read().reference_wrong, reference);
  EXPECT_TRUE(ReferenceChange::Fits(change.settings(), change.state()));
  change.Add(.9, false);
  // Its start has the weight of a first one.
  EXPECT_NEAR(change.Read().e_value, 1 / (2.11 * 2 * std::log(2) * std::log(2)), .1);
  for (int i = 0; i < 3000 && !change.changed(); ++i) change.Add(.9, true);
  EXPECT_GE(change.Read().e_value, 1000);
}

// A later row in a cell that neither the warm-up nor the reference has.
TEST(ReferenceChangeTest, ANewCellIsNoChangeByItself) {
  ReferenceChange change(kSettings);
  for (int i = 0; i < 1000; ++i) change.Add(.9, i % 10 == 0);
  for (int i = 0; i < 3000; ++i) change.Add(.3, i % 10 < 7);
  EXPECT_FALSE(change.changed());
  // It is compared with the error of all cells.
  EXPECT_NEAR(change.state().expected_wrong, 300, 1e-6);
}

}  // namespace
}  // namespace calibd
