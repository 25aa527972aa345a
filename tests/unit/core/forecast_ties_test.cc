// The evidence of quantiles with outcomes that equal them.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <memory>
#include <numbers>
#include <span>
#include <vector>

#include "base/rng.h"
#include "calibd/core/error_interval.h"
#include "calibd/core/forecast_cells.h"
#include "calibd/core/forecast_coverage.h"
#include "calibd/core/forecast_evidence.h"
#include "numbers/level_processes.h"

namespace calibd {
namespace {

constexpr std::size_t kExperts = 69 + 7 + 2;
constexpr double kNoMark = std::numeric_limits<double>::infinity();

double LogMean(std::span<const double> values) {
  const double largest = *std::ranges::max_element(values);
  double sum = 0;
  for (const double value : values) sum += std::exp(value - largest);
  return largest + std::log(sum / static_cast<double>(values.size()));
}

double LogCellMixture(const std::vector<double>& logs) {
  const std::span all(logs);
  return LogMean(std::vector{LogMean(all.first(69)), LogMean(all.subspan(69, 3)),
                             LogMean(all.subspan(72, 3)), LogMean(all.subspan(75, 3))});
}

std::shared_ptr<const ForecastCells> CellsOf(std::vector<double> levels,
                                             double tolerance = kDefaultTolerance) {
  ForecastStrata strata;
  strata.edges = {StratumEdges{1, 3, 5}, StratumEdges{0, 1, 2}};
  return *ForecastCells::Create(QuantileForecasts{std::move(levels)}, strata, 5, tolerance);
}

// The processes by their definition, one observation after the other, in logarithms.
class ReferenceProcesses {
 public:
  explicit ReferenceProcesses(const ForecastCells& cells)
      : cells_(cells), levels_(cells.edges().begin(), cells.edges().end()) {
    recent_.retention = 1 - 1 / kMemory;
  }

  void Add(const ForecastRow& row) {
    const std::vector<double> bets = AddTo(all_, row);
    const std::vector<double> recent_bets = AddTo(recent_, row);
    double least = 0;
    double most = 0;
    const auto bound = [&](double bet) {
      least = std::min(least, bet);
      most = std::max(most, bet);
    };
    for (std::size_t i = 0; i < kExperts; ++i) {
      log_e[i] += bets[i];
      Drift(recent_bets[i], log_r1[i]);
      bound(bets[i]);
      bound(recent_bets[i]);
    }
    for (std::size_t i = 0; i < log_levels.size(); ++i) {
      const double bet = LevelLogBet(i, row);
      log_levels[i] += bet;
      Drift(bet, log_level_r1[i]);
      bound(bet);
    }
    // A block also ends where a process may have changed by a factor of 1e200.
    least_growth_ += least;
    most_growth_ += most;
    const double range = 200 * std::numbers::ln10;
    const bool is_wide = least_growth_ < -range || most_growth_ > range;
    if (++block_ == 64 || is_wide || (!tied && row.ties > 0)) BeginBlock();
    if (!tied && row.ties > 0) {
      tied = true;
      log_levels.assign(6 * levels_.size(), LogCellMixture(log_e));
      log_level_r1.assign(6 * levels_.size(), 0);
    }
  }

  double LogE() const {
    const double log_cells = LogCellMixture(log_e);
    return tied ? LogMean(std::vector{log_cells, LogMean(log_levels)}) : log_cells;
  }
  double LogR() const {
    const double log_cells = LogCellMixture(log_r1);
    return tied ? LogMean(std::vector{log_cells, LogMean(log_level_r1)}) : log_cells;
  }

  bool tied = false;
  std::vector<double> log_e = std::vector<double>(kExperts);
  std::vector<double> log_r1 = std::vector<double>(kExperts);
  std::vector<double> log_levels;
  std::vector<double> log_level_r1;

 private:
  struct Past {
    double retention = 1;
    std::vector<std::vector<std::vector<double>>> counts =
        std::vector(2, std::vector(4, std::vector<double>(64)));
    std::vector<std::vector<std::vector<double>>> log_weights =
        std::vector(2, std::vector(4, std::vector<double>(69)));
  };

  static void Drift(double bet, double& log_r) {
    log_r += bet;
    log_r = std::max(log_r, 0.0) + std::log1p(std::exp(-std::abs(log_r)));
  }

  double LevelLogBet(std::size_t expert, const ForecastRow& row) const {
    const std::size_t k = expert % levels_.size();
    const double lambda = std::vector{.1, .25, .5}[expert / (2 * levels_.size())];
    if (expert / levels_.size() % 2 == 0) {
      const double tau = levels_[k] + cells_.tolerance();
      const double below = k >= std::size_t{row.cell} + row.ties ? 1 : 0;
      return std::log(1 + lambda / tau * (below - tau));
    }
    const double tau = levels_[k] - cells_.tolerance();
    const double not_above = k >= row.cell ? 1 : 0;
    return std::log(1 + lambda / (1 - tau) * (tau - not_above));
  }

  double HistogramBet(const std::vector<double>& counts, double kappa, std::size_t cell) const {
    double total = 0;
    for (const double count : counts) total += count;
    const double p = cells_.smoothed()[cell];
    return (counts[cell] + kappa * p) / ((total + kappa) * p) / (1 + cells_.tolerance());
  }

  // Returns the logarithms of the bets.
  std::vector<double> AddTo(Past& past, const ForecastRow& row) {
    std::vector<double> logs(kExperts);
    std::vector<double> all(64);
    for (const auto& stratum : past.counts[0]) {
      for (std::size_t c = 0; c < 64; ++c) all[c] += stratum[c];
    }
    const std::size_t last = std::size_t{row.cell} + row.ties;
    const auto least = [&](const auto& bet) {
      double smallest = bet(row.cell);
      for (std::size_t c = row.cell; c <= last; ++c) smallest = std::min(smallest, bet(c));
      return smallest;
    };
    const auto histogram = [&](const std::vector<double>& counts, double kappa) {
      return std::log(least([&](std::size_t c) { return HistogramBet(counts, kappa, c); }));
    };
    std::vector<double> constant(69);
    for (std::size_t j = 0; j < 69; ++j) {
      constant[j] = least([&](std::size_t c) { return cells_.LogBet(j, c); });
      logs[j] += constant[j];
    }
    std::size_t at = 69;
    for (const double kappa : {4., 24., 100.}) logs[at++] += histogram(all, kappa);
    for (std::size_t kind = 0; kind < 2; ++kind) {
      const std::size_t stratum = row.strata[kind];
      std::vector<double>& counts = past.counts[kind][stratum];
      for (const double kappa : {24., 100.}) logs[at++] += histogram(counts, kappa);
      std::vector<double>& weights = past.log_weights[kind][stratum];
      const double before = LogMean(weights);
      for (std::size_t j = 0; j < 69; ++j) weights[j] += constant[j];
      logs[at++] += LogMean(weights) - before;
    }
    double fitting = 0;
    for (std::size_t c = row.cell; c <= last; ++c) fitting += cells_.smoothed()[c];
    for (std::size_t kind = 0; kind < 2; ++kind) {
      for (auto& stratum : past.counts[kind]) {
        for (double& count : stratum) count *= past.retention;
      }
      for (std::size_t c = row.cell; c <= last; ++c) {
        past.counts[kind][row.strata[kind]][c] += cells_.smoothed()[c] / fitting;
      }
    }
    return logs;
  }

  void BeginBlock() {
    block_ = 0;
    least_growth_ = 0;
    most_growth_ = 0;
    for (std::size_t kind = 0; kind < 2; ++kind) {
      for (std::size_t stratum = 0; stratum < 4; ++stratum) {
        for (std::size_t j = 0; j < 69; ++j) {
          double& weight = recent_.log_weights[kind][stratum][j];
          weight = 0;
          for (std::size_t c = 0; c < cells_.cell_count(); ++c) {
            weight += recent_.counts[kind][stratum][c] * cells_.LogBet(j, c);
          }
        }
      }
    }
  }

  const ForecastCells& cells_;
  std::vector<double> levels_;
  Past all_;
  Past recent_;
  int block_ = 0;
  double least_growth_ = 0;
  double most_growth_ = 0;
};

// Any cells and strata. Every third outcome is tied, from `first_tie` on.
std::vector<ForecastRow> RandomRows(std::size_t cell_count, std::size_t n, std::size_t first_tie,
                                    std::uint64_t seed) {
  Rng rng(seed);
  const auto below = [&rng](std::size_t bound) {
    return static_cast<std::uint8_t>(rng.Below(static_cast<std::uint32_t>(bound)));
  };
  std::vector<ForecastRow> rows(n);
  for (std::size_t i = 0; i < n; ++i) {
    rows[i].cell = below(cell_count);
    rows[i].strata = {below(4), below(4)};
    if (i >= first_tie && (i - first_tie) % 3 == 0) rows[i].ties = below(cell_count - rows[i].cell);
    if (i == first_tie) {
      rows[i].cell = 0;
      rows[i].ties = 1;
    }
  }
  return rows;
}

void ExpectAgreement(const ForecastEvidence& evidence, const ReferenceProcesses& reference) {
  const auto near = [](double actual, double expected) {
    EXPECT_NEAR(actual, expected, 1e-9 * std::max(1.0, std::abs(expected)));
  };
  const ForecastEvidenceReading reading = evidence.Read();
  near(evidence.LogEValue(), reference.LogE());
  near(reading.evidence.log10_e_value * std::numbers::ln10, reference.LogE());
  near(reading.drift.log10_now * std::numbers::ln10, std::max(0.0, reference.LogR()));
  const auto& families = reading.evidence.family_log10_e_value;
  near(families[4] * std::numbers::ln10, reference.tied ? LogMean(reference.log_levels) : 0);
  double share = 0;
  for (const double one : reading.evidence.family_share) share += one;
  EXPECT_NEAR(share, 1, 1e-12);
}

bool SameBits(const ForecastEvidence& a, const ForecastEvidence& b) {
  const ForecastEvidenceReading x = a.Read();
  const ForecastEvidenceReading y = b.Read();
  return a.Save() == b.Save() && a.LogEValue() == b.LogEValue() && x.maximum == y.maximum &&
         x.drift.log10_now == y.drift.log10_now && x.drift.maximum == y.drift.maximum &&
         x.counts == y.counts;
}

TEST(ForecastTiesTest, ATiedOutcomeFitsTheCellsAroundTheEqualQuantiles) {
  const auto cells = CellsOf({.1, .5, .9});
  const std::vector<double> forecasts = {0, 0, 2, 0, 0, 2, 0, 0, 2, 0, 0, 2, 1, 1, 1};
  const std::vector<double> outcomes = {0, 1, 2, 3, 1};
  std::vector<ForecastRow> rows(5);
  cells->Describe({.forecasts = forecasts, .outcomes = outcomes}, 1, rows);
  ForecastCounts counts(cells->cell_count());
  EXPECT_FALSE(counts.has_ties());
  const std::vector<int> lowest = {0, 2, 2, 3, 0};
  const std::vector<int> ties = {2, 0, 1, 0, 3};
  for (std::size_t i = 0; i < rows.size(); ++i) {
    EXPECT_EQ(rows[i].cell, lowest[i]) << i;
    EXPECT_EQ(rows[i].ties, ties[i]) << i;
    counts.Add(rows[i]);
  }
  EXPECT_TRUE(counts.has_ties());
  EXPECT_TRUE(counts.IsValid());
  EXPECT_EQ(counts.equal, (std::vector<std::int64_t>{2, 2, 2}));
  ForecastCounts twice = counts;
  twice.Merge(counts);
  EXPECT_EQ(twice.equal, (std::vector<std::int64_t>{4, 4, 4}));
  twice.Subtract(counts);
  EXPECT_EQ(twice, counts);
  counts.equal[0] = 3;
  EXPECT_FALSE(counts.IsValid());
}

// Computed by hand: 1 + (.5 / tau) ([y < q] - tau), and 1 + (.5 / (1 - tau)) (tau - [y <= q]).
TEST(ForecastTiesTest, BetsOnLevelsAreThoseOfTheFormula) {
  const auto cells = CellsOf({.1, .5, .9}, kMinTolerance);
  LevelProcesses levels(cells->level_wins());
  levels.e.Begin(0);
  levels.r1.Begin(0);
  // The outcome equals the first quantile.
  (void)levels.Advance(0, 1);
  const std::vector<double> expected = {.5, 1.5, 1 + .5 * .1 / .9, .5, .5, .5};
  for (std::size_t i = 0; i < expected.size(); ++i) {
    EXPECT_NEAR(levels.e.growth[12 + i], expected[i], 1e-7) << i;
    EXPECT_NEAR(levels.r1.growth[12 + i], 1 + expected[i], 1e-7) << i;
  }
  // Above all of them.
  levels.e.Begin(0);
  (void)levels.Advance(3, 0);
  const std::vector<double> above = {.5, .5, .5, 1 + .5 * .1 / .9, 1.5, 1 + .5 * .9 / .1};
  for (std::size_t i = 0; i < above.size(); ++i) {
    EXPECT_NEAR(levels.e.growth[12 + i], above[i], 1e-7) << i;
  }
}

TEST(ForecastTiesTest, AgreesWithTheDefinition) {
  for (const std::vector<double>& levels :
       {std::vector{.5}, std::vector{.1, .5, .9}, std::vector{.05, .2, .3, .4, .6, .8, .95}}) {
    const auto cells = CellsOf(levels);
    for (const std::size_t first_tie : {0U, 100U, 127U}) {
      ForecastEvidence evidence(cells);
      ReferenceProcesses reference(*cells);
      for (const ForecastRow& row : RandomRows(cells->cell_count(), 400, first_tie, 3)) {
        evidence.Add(std::span(&row, 1));
        reference.Add(row);
        ExpectAgreement(evidence, reference);
        if (::testing::Test::HasFailure()) return;
      }
    }
  }
}

TEST(ForecastTiesTest, BitsDependNeitherOnBatchesNorOnRestarts) {
  const auto cells = CellsOf({.1, .5, .9});
  for (const std::size_t first_tie : {0U, 40U, 128U}) {
    const std::vector<ForecastRow> rows = RandomRows(cells->cell_count(), 300, first_tie, 4);
    ForecastEvidence whole(cells);
    ForecastEvidence moved(cells);
    for (std::size_t i = 0; i < rows.size(); ++i) {
      whole.Add(std::span(rows).subspan(i, 1));
      moved.Add(std::span(rows).subspan(i, 1));
      if (i % 37 == 0 || i == first_tie) {
        const ForecastEvidenceState state = moved.Save();
        EXPECT_EQ(state.ties.has_value(), i >= first_tie);
        moved = ForecastEvidence(cells);
        ASSERT_TRUE(moved.Restore(state).ok());
        EXPECT_EQ(moved.Save(), state);
      }
      if (i == 200) {
        whole.RestartDrift(kNoMark);
        moved.RestartDrift(kNoMark);
        EXPECT_EQ(whole.Read().drift.log10_now, 0);
      }
    }
    EXPECT_TRUE(SameBits(whole, moved));
    ForecastEvidence at_once(cells);
    at_once.Add(std::span(rows).first(201));
    at_once.RestartDrift(kNoMark);
    at_once.Add(std::span(rows).subspan(201));
    EXPECT_TRUE(SameBits(whole, at_once));
  }
}

// Under the null hypothesis one of the cells that fit has the stated probabilities. Whatever cells
// fit beside it, the means of all processes are at most 1.
TEST(ForecastTiesTest, ProcessesAreSupermartingales) {
  const auto cells = CellsOf({.2, .5, .9});
  ForecastEvidence evidence(cells);
  Rng rng(8);
  for (const ForecastRow& before : RandomRows(cells->cell_count(), 150, 5, 21)) {
    // Atoms that cover some adjacent cells, as a quantile function with steps has them.
    const std::size_t first = rng.Below(4);
    const std::size_t last = first + rng.Below(static_cast<std::uint32_t>(4 - first));
    double e = 0;
    double r = 0;
    for (std::size_t c = 0; c < cells->cell_count(); ++c) {
      ForecastRow row = before;
      const bool atom = first <= c && c <= last;
      row.cell = static_cast<std::uint8_t>(atom ? first : c);
      row.ties = static_cast<std::uint8_t>(atom ? last - first : 0);
      ForecastEvidence next = evidence;
      next.Add(std::span(&row, 1));
      e += cells->probabilities()[c] * std::exp(next.LogEValue() - evidence.LogEValue());
      r += cells->probabilities()[c] * std::pow(10, next.Read().drift.log10_now);
    }
    EXPECT_LE(e, 1 + 1e-12);
    EXPECT_LE(r, 1 + std::pow(10, evidence.Read().drift.log10_now) + 1e-9);
    evidence.Add(std::span(&before, 1));
  }
}

TEST(ForecastTiesTest, PartsMultiply) {
  const auto cells = CellsOf({.1, .5, .9});
  const std::vector<ForecastRow> rows = RandomRows(cells->cell_count(), 300, 20, 11);
  std::vector<ForecastEvidence> parts(2, ForecastEvidence(cells));
  std::vector<ReferenceProcesses> references(2, ReferenceProcesses(*cells));
  // The second part has no ties.
  for (const ForecastRow& row : rows) {
    const std::size_t part = row.ties == 0 ? 1 : 0;
    parts[part].Add(std::span(&row, 1));
    references[part].Add(row);
  }
  const auto reading = CombineDisjoint(std::vector<const ForecastEvidence*>{&parts[0], &parts[1]});
  ASSERT_TRUE(reading.ok());
  EXPECT_EQ(reading->count, 300);
  EXPECT_TRUE(reading->counts.has_ties());
  std::vector<double> logs(kExperts);
  for (std::size_t i = 0; i < kExperts; ++i) {
    logs[i] = references[0].log_e[i] + references[1].log_e[i];
  }
  const double expected = LogMean(
      std::vector{LogCellMixture(logs), LogMean(references[0].log_levels) + references[1].LogE()});
  EXPECT_NEAR(reading->evidence.log10_e_value * std::numbers::ln10, expected,
              1e-9 * std::max(1.0, std::abs(expected)));
}

TEST(ForecastTiesTest, ExpertsOnOtherLevelsContinueWithTheSameEValue) {
  const auto cells = CellsOf({.1, .5, .9});
  ForecastEvidence evidence(cells);
  evidence.Add(RandomRows(cells->cell_count(), 130, 1, 6));
  ForecastEvidenceState state = evidence.Save();
  ASSERT_TRUE(state.ties.has_value());
  ASSERT_TRUE(state.pending.empty());
  state.ties->level_bets = {.2};
  state.ties->log_levels.resize(6);
  state.ties->log_level_shiryaev_roberts.resize(6);
  ForecastEvidence restored(cells);
  ASSERT_TRUE(restored.Restore(state).ok());
  EXPECT_NEAR(restored.LogEValue(), evidence.LogEValue(), 1e-9 * std::abs(evidence.LogEValue()));
  EXPECT_EQ(restored.Save().ties->level_bets, (std::vector{.1, .25, .5}));
}

// Ten forecasts with the quantiles 0, 0 and 2 at the levels .1, .5 and .9.
ForecastCounts CountsOf(const ForecastCells& cells, const std::vector<double>& outcomes) {
  std::vector<double> forecasts;
  for (std::size_t i = 0; i < outcomes.size(); ++i) forecasts.insert(forecasts.end(), {0, 0, 2});
  std::vector<ForecastRow> rows(outcomes.size());
  cells.Describe({.forecasts = forecasts, .outcomes = outcomes}, 1, rows);
  ForecastCounts counts(cells.cell_count());
  for (const ForecastRow& row : rows) counts.Add(row);
  return counts;
}

TEST(ForecastTiesTest, TheErrorIsThatOfLevelsOutsideOfWhatTheOutcomesAllow) {
  const auto cells = CellsOf({.1, .5, .9});
  const CoveragePartition partition(*cells);
  // 0 % are below 0, 60 % at most 0, and 90 % below and at most 2: all levels are right.
  const ForecastCounts exact = CountsOf(*cells, {0, 0, 0, 0, 0, 0, 1, 1, 1, 3});
  const auto right = CoverageOf(*cells, exact, {});
  ASSERT_TRUE(right.has_value());
  EXPECT_EQ(right->error.estimate, 0);
  // The farthest upper end is that of level .5, at most 60 % and below 0 %.
  const auto width = [](double count, double level) {
    return MixtureBoundary(count * (1 - level) * (1 - level) + (10 - count) * level * level,
                           std::log(12 / .025));
  };
  EXPECT_NEAR(right->error.upper,
              std::min(1.0, std::max((9 - 9 + width(9, .9)), 5 - 6 + width(6, .5)) / 10), 1e-15);
  ASSERT_EQ(right->levels.size(), 3);
  EXPECT_EQ(right->levels[1].level, .5);
  EXPECT_EQ(right->levels[1].below, 0);
  EXPECT_EQ(right->levels[1].at_most, .6);
  EXPECT_EQ(right->levels[1].lower, 0);
  EXPECT_NEAR(right->levels[1].upper, std::min(1.0, (6 + width(6, .5)) / 10), 1e-15);
  EXPECT_EQ(right->widest(), nullptr);
  EXPECT_EQ(partition.Interval(exact.Cells(), exact.equal, .025).lower, 0);
  // Only 50 % are at most 2, whose level is .9.
  const ForecastCounts wrong = CountsOf(*cells, {0, 0, 0, 0, 0, 3, 3, 3, 3, 3});
  EXPECT_NEAR(CoverageOf(*cells, wrong, {})->error.estimate, .4, 1e-15);
  EXPECT_NEAR(partition.Interval(wrong.Cells(), wrong.equal, .9).lower,
              std::max(0.0, 9 - 5 - MixtureBoundary(5 * .01 + 5 * .81, std::log(12 / .9))), 1e-14);
  const double k = std::log(12 / .025);
  EXPECT_NEAR(CoverageOf(*cells, wrong, {.one_look = true})->levels[2].upper,
              std::min(1.0, .5 + OneLookBoundary(10, 10 * .09, k, .5)(5 * .01 + 5 * .81, k) / 10),
              1e-15);
  // 30 % are below 0, whose levels are .1 and .5.
  const ForecastCounts below = CountsOf(*cells, {-1, -1, -1, 0, 0, 0, 1, 1, 1, 3});
  EXPECT_NEAR(CoverageOf(*cells, below, {})->error.estimate, .2, 1e-15);
  // Without ties it is the total variation distance.
  const ForecastCounts untied = CountsOf(*cells, {1, 1, 1, 1, 1, 1, 1, 1, 1, 1});
  EXPECT_NEAR(CoverageOf(*cells, untied, {})->error.estimate, .6, 1e-15);
}

TEST(ForecastTiesTest, NoDecisionIsForetold) {
  const auto cells = CellsOf({.1, .5, .9});
  ForecastCounts counts(cells->cell_count());
  const ForecastCounts ten = CountsOf(*cells, {0, 0, 0, 0, 0, 0, 1, 1, 1, 3});
  for (int i = 0; i < 200; ++i) counts.Merge(ten);
  EXPECT_FALSE(ForeseeCoverageDecision(*cells, counts, {}, .05, 0).has_value());
}

TEST(ForecastTiesTest, RejectsStatesThatCannotBe) {
  const auto cells = CellsOf({.1, .5, .9});
  ForecastEvidence evidence(cells);
  evidence.Add(RandomRows(cells->cell_count(), 100, 5, 8));
  const ForecastEvidenceState valid = evidence.Save();
  ASSERT_TRUE(evidence.Restore(valid).ok());
  const auto rejects = [&](const auto& change) {
    ForecastEvidenceState state = valid;
    change(state);
    EXPECT_FALSE(evidence.Restore(state).ok());
    EXPECT_EQ(evidence.Save(), valid);
  };
  using State = ForecastEvidenceState;
  const double nan = std::nan("");
  rejects([](State& s) { s.counts.equal[0] = -1; });
  rejects([](State& s) { s.counts.equal.pop_back(); });
  rejects([](State& s) { s.ties->cells.pop_back(); });
  rejects([nan](State& s) { s.ties->cells[0] = nan; });
  rejects([](State& s) { s.ties->cells[0] = -1; });
  rejects([](State& s) { s.ties->log_bets.pop_back(); });
  rejects([nan](State& s) { s.ties->log_bets[0] = nan; });
  rejects([](State& s) { s.ties->level_bets[0] = s.ties->level_bets[1]; });
  rejects([](State& s) { s.ties->log_levels.pop_back(); });
  rejects([](State& s) { s.ties->log_level_shiryaev_roberts[0] = -1; });
  // More cells than there are.
  rejects([](State& s) { s.pending[0] = 1024 * 3 + 16; });
  // Normal forecasts are never tied.
  ForecastEvidence normal(*ForecastCells::Create(NormalForecasts{}, {}, 1, kDefaultTolerance));
  ForecastRow row;
  normal.Add(std::span(&row, 1));
  ForecastEvidenceState state = normal.Save();
  ASSERT_TRUE(normal.Restore(state).ok());
  state.pending[0] += 1024;
  EXPECT_FALSE(normal.Restore(state).ok());
}

}  // namespace
}  // namespace calibd
