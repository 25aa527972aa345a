#include "calibd/core/forecast_evidence.h"

#include <gtest/gtest.h>

#include <cmath>
#include <filesystem>
#include <limits>
#include <numbers>
#include <random>
#include <span>
#include <vector>

#include "base/flush_subnormals.h"
#include "base/normal_quantile.h"
#include "base/rng.h"
#include "calibd/core/forecast_cells.h"
#include "numbers/location_scale_fit.h"
#include "support/test_data.h"

namespace calibd {
namespace {

using nlohmann::json;

constexpr std::size_t kReferenceExperts = 78;

double Log10(double log_value) { return log_value / std::numbers::ln10; }

double LogMean(const std::vector<double>& values) {
  const double largest = *std::max_element(values.begin(), values.end());
  double sum = 0;
  for (const double value : values) sum += std::exp(value - largest);
  return largest + std::log(sum / static_cast<double>(values.size()));
}

// The mixture over experts with equal shares of families.
double LogMixtureOf(const std::vector<double>& logs) {
  const auto family = [&](std::ptrdiff_t first, std::ptrdiff_t last) {
    return LogMean(std::vector<double>(logs.begin() + first, logs.begin() + last));
  };
  return LogMean({family(0, 69), family(69, 72), family(72, 75), family(75, 78)});
}

// The processes by their definition, one observation after the other, in logarithms.
class ReferenceProcesses {
 public:
  explicit ReferenceProcesses(const ForecastCells& cells)
      : cells_(cells), all_(cells.cell_count()), recent_(cells.cell_count()) {}

  void Add(const ForecastRow& row) {
    const std::vector<double> bets = Bets(row, all_);
    const std::vector<double> recent_bets = Bets(row, recent_);
    for (std::size_t i = 0; i < kReferenceExperts; ++i) {
      log_e[i] += bets[i];
      log_r1[i] = log_r1[i] + recent_bets[i];
      log_r1[i] = std::max(log_r1[i], 0.0) + std::log1p(std::exp(-std::abs(log_r1[i])));
    }
    ++count;
    AddTo(row, 1, all_);
    AddTo(row, 1 - 1 / kMemory, recent_);
    // A block also ends where a process has changed by a factor of 1e200.
    double least = 0;
    double most = 0;
    for (const auto* of_past : {&bets, &recent_bets}) {
      least = std::min(least, *std::min_element(of_past->begin(), of_past->end()));
      most = std::max(most, *std::max_element(of_past->begin(), of_past->end()));
    }
    least_growth_ += least;
    most_growth_ += most;
    const double range = 200 * std::numbers::ln10;
    if (++block_ == 64 || least_growth_ < -range || most_growth_ > range) BeginWeights();
    maximum.Add(LogMixtureOf(log_e), count);
    shiryaev_roberts_maximum.Add(LogMixtureOf(log_r1), count);
  }

  std::vector<double> log_e = std::vector<double>(kReferenceExperts);
  std::vector<double> log_r1 = std::vector<double>(kReferenceExperts);
  std::int64_t count = 0;
  RunningMaximum maximum;
  RunningMaximum shiryaev_roberts_maximum;

 private:
  struct Past {
    explicit Past(std::size_t cells)
        : counts(2, std::vector(4, std::vector<double>(cells))),
          log_weights(2, std::vector(4, std::vector<double>(69))) {}
    // Both are by kind and stratum.
    std::vector<std::vector<std::vector<double>>> counts;
    std::vector<std::vector<std::vector<double>>> log_weights;
  };

  double LogHistogram(double observed, double total, double kappa, std::size_t cell) const {
    const double p = cells_.smoothed()[cell];
    return std::log((observed + kappa * p) / ((total + kappa) * p)) -
           std::log1p(cells_.tolerance());
  }

  std::vector<double> Bets(const ForecastRow& row, const Past& past) const {
    std::vector<double> bets(69);
    for (std::size_t j = 0; j < 69; ++j) bets[j] = cells_.LogBet(j, row.cell);
    const std::vector<double> constant = bets;
    double observed = 0;
    double total = 0;
    for (const auto& stratum : past.counts[0]) {
      observed += stratum[row.cell];
      for (const double of_cell : stratum) total += of_cell;
    }
    for (const double kappa : {4., 24., 100.}) {
      bets.push_back(LogHistogram(observed, total, kappa, row.cell));
    }
    for (std::size_t kind = 0; kind < 2; ++kind) {
      const auto& own = past.counts[kind][row.strata[kind]];
      double own_total = 0;
      for (const double of_cell : own) own_total += of_cell;
      for (const double kappa : {24., 100.}) {
        bets.push_back(LogHistogram(own[row.cell], own_total, kappa, row.cell));
      }
      const std::vector<double>& before = past.log_weights[kind][row.strata[kind]];
      std::vector<double> after = before;
      for (std::size_t j = 0; j < 69; ++j) after[j] += constant[j];
      bets.push_back(LogMean(after) - LogMean(before));
    }
    return bets;
  }

  void AddTo(const ForecastRow& row, double retention, Past& past) const {
    for (std::size_t kind = 0; kind < 2; ++kind) {
      for (auto& stratum : past.counts[kind]) {
        for (double& of_cell : stratum) of_cell *= retention;
      }
      past.counts[kind][row.strata[kind]][row.cell] += 1;
      std::vector<double>& weights = past.log_weights[kind][row.strata[kind]];
      for (std::size_t j = 0; j < 69; ++j) weights[j] += cells_.LogBet(j, row.cell);
    }
  }

  void BeginWeights() {
    block_ = 0;
    least_growth_ = 0;
    most_growth_ = 0;
    for (std::size_t kind = 0; kind < 2; ++kind) {
      for (std::size_t stratum = 0; stratum < 4; ++stratum) {
        std::vector<double>& weights = recent_.log_weights[kind][stratum];
        for (std::size_t j = 0; j < 69; ++j) {
          weights[j] = 0;
          for (std::size_t c = 0; c < cells_.cell_count(); ++c) {
            weights[j] += recent_.counts[kind][stratum][c] * cells_.LogBet(j, c);
          }
        }
      }
    }
  }

  const ForecastCells& cells_;
  Past all_;
  Past recent_;
  int block_ = 0;
  double least_growth_ = 0;
  double most_growth_ = 0;
};

std::shared_ptr<const ForecastCells> CellsFor(const NumberForecastKind& kind,
                                              double tolerance = kDefaultTolerance) {
  ForecastStrata strata;
  strata.edges = {StratumEdges{.7, 1, 1.4}, StratumEdges{-.7, 0, .7}};
  return *ForecastCells::Create(kind, strata, 5, tolerance);
}

double NormalDraw(Rng& rng) {
  return std::sqrt(-2 * std::log(rng.Uniform())) * std::cos(2 * std::numbers::pi * rng.Uniform());
}

// Rows of Normal forecasts whose outcomes are shifted and scaled.
std::vector<ForecastRow> NormalRows(const ForecastCells& cells, std::size_t n, double shift,
                                    double scale, std::uint64_t seed) {
  Rng rng(seed);
  std::vector<double> forecasts;
  std::vector<double> outcomes;
  for (std::size_t i = 0; i < n; ++i) {
    forecasts.push_back(NormalDraw(rng));
    forecasts.push_back(std::exp(.35 * NormalDraw(rng)));
    outcomes.push_back(forecasts[2 * i] + forecasts[2 * i + 1] * (shift + scale * NormalDraw(rng)));
  }
  std::vector<ForecastRow> rows(n);
  cells.Describe({.forecasts = forecasts, .outcomes = outcomes}, 1, rows);
  return rows;
}

// Any cells and strata.
std::vector<ForecastRow> RandomRows(std::size_t cell_count, std::size_t n, std::uint64_t seed) {
  Rng rng(seed);
  std::vector<ForecastRow> rows(n);
  for (ForecastRow& row : rows) {
    row.cell = static_cast<std::uint8_t>(rng.Below(static_cast<std::uint32_t>(cell_count)));
    row.strata = {static_cast<std::uint8_t>(rng.Below(4)), static_cast<std::uint8_t>(rng.Below(4))};
    row.crps = rng.Uniform();
    row.t = rng.Uniform() - .5;
  }
  return rows;
}

void ExpectClose(double actual, double expected, const char* what) {
  EXPECT_NEAR(actual, expected, 1e-9 * std::max(1.0, std::abs(expected))) << what;
}

void ExpectClose(const RunningMaximum& actual, const RunningMaximum& expected, const char* what) {
  ExpectClose(actual.log_value, expected.log_value, what);
  EXPECT_EQ(actual.at, expected.at) << what;
}

void ExpectAgreement(const ForecastEvidence& evidence, const ReferenceProcesses& reference) {
  const ForecastEvidenceReading reading = evidence.Read();
  EXPECT_EQ(reading.count, reference.count);
  ExpectClose(reading.evidence.log10_e_value, Log10(LogMixtureOf(reference.log_e)), "e");
  ExpectClose(evidence.LogEValue(), LogMixtureOf(reference.log_e), "log e");
  const MixedForecastEvidence of_counts = EvidenceOf(*evidence.cells(), reading.counts);
  ExpectClose(of_counts.log10_e_value, Log10(LogMixtureOf(reference.log_e)), "e of counts");
  for (std::size_t f = 0; f < kForecastFamilyCount; ++f) {
    ExpectClose(reading.evidence.family_log10_e_value[f], of_counts.family_log10_e_value[f],
                "family");
    EXPECT_NEAR(reading.evidence.family_share[f], of_counts.family_share[f], 1e-9);
  }
  ExpectClose(reading.maximum, reference.maximum, "maximum");
  ExpectClose(reading.drift.log10_now, Log10(LogMixtureOf(reference.log_r1)), "R");
  ExpectClose(reading.drift.maximum, reference.shiryaev_roberts_maximum, "max R");
}

bool SameBits(const ForecastEvidence& a, const ForecastEvidence& b) {
  const ForecastEvidenceReading x = a.Read();
  const ForecastEvidenceReading y = b.Read();
  return a.Save() == b.Save() && a.LogEValue() == b.LogEValue() && x.maximum == y.maximum &&
         x.drift.log10_now == y.drift.log10_now && x.drift.maximum == y.drift.maximum &&
         x.evidence_reached_at == y.evidence_reached_at &&
         x.drift_reached_at == y.drift_reached_at && x.counts == y.counts;
}

TEST(ForecastEvidenceTest, IsThatOfTheReference) {
  int checked = 0;
  for (const json& small :
       testing::ReadJson(std::filesystem::path(CALIBD_GOLDEN_DIR) / "small_cases_34.json")) {
    if (small.at("kind") != "evidence") continue;
    const auto cells = *ForecastCells::Create(NormalForecasts{}, {}, 1, small.at("tolerance"));
    ForecastEvidence evidence(cells);
    for (std::size_t i = 0; i < small.at("cells").size(); ++i) {
      ForecastRow row;
      row.cell = small.at("cells").at(i);
      row.strata = {small.at("strata").at(i).at(0), small.at("strata").at(i).at(1)};
      evidence.Add(std::span(&row, 1));
      ExpectClose(Log10(evidence.LogEValue()) * std::numbers::ln10, small.at("log_e").at(i), "log");
      ExpectClose(EvidenceOf(*cells, evidence.counts()).log10_e_value * std::numbers::ln10,
                  small.at("log_e").at(i), "log of counts");
    }
    const MixedForecastEvidence result = EvidenceOf(*cells, evidence.counts());
    ExpectClose(result.log10_e_value, small.at("log10_e_value"), "e");
    double share = 0;
    for (std::size_t f = 0; f < kCellFamilyCount; ++f) {
      ExpectClose(result.family_log10_e_value[f] * std::numbers::ln10, small.at("families").at(f),
                  "family");
      share += result.family_share[f];
    }
    EXPECT_NEAR(share, 1, 1e-12);
    ++checked;
  }
  EXPECT_EQ(checked, 1);
}

TEST(ForecastEvidenceTest, AgreesWithTheDefinition) {
  struct Case {
    double shift;
    double scale;
  };
  const auto cells = CellsFor(NormalForecasts{});
  for (const Case& c : {Case{0, 1}, Case{.3, 1.2}, Case{-2, 4}}) {
    ForecastEvidence evidence(cells);
    ReferenceProcesses reference(*cells);
    for (const ForecastRow& row : NormalRows(*cells, 700, c.shift, c.scale, 3)) {
      evidence.Add(std::span(&row, 1));
      reference.Add(row);
      if (reference.count < 5 || reference.count % 61 == 0) ExpectAgreement(evidence, reference);
    }
    ExpectAgreement(evidence, reference);
  }
}

TEST(ForecastEvidenceTest, AgreesWithTheDefinitionForOtherKinds) {
  std::vector<double> levels;
  for (int k = 1; k < 64; ++k) levels.push_back(k / 64.0);
  for (const NumberForecastKind& kind :
       {NumberForecastKind(QuantileForecasts{{.5}}), NumberForecastKind(QuantileForecasts{levels}),
        NumberForecastKind(QuantileForecasts{{.1, .5, 1 - 1e-9}}),
        NumberForecastKind(SampleForecasts{2}), NumberForecastKind(SampleForecasts{1000})}) {
    const auto cells = CellsFor(kind);
    ForecastEvidence evidence(cells);
    ReferenceProcesses reference(*cells);
    for (const ForecastRow& row : RandomRows(cells->cell_count(), 300, 9)) {
      evidence.Add(std::span(&row, 1));
      reference.Add(row);
    }
    ExpectAgreement(evidence, reference);
  }
}

TEST(ForecastEvidenceTest, BitsDoNotDependOnTheBatches) {
  const auto cells = CellsFor(NormalForecasts{});
  for (const double scale : {1., 1.5, 20.}) {
    const std::vector<ForecastRow> rows = NormalRows(*cells, 1000, .2, scale, 4);
    const EvidenceMarks marks{.log_e = std::log(20), .log_shiryaev_roberts = std::log(1000)};
    ForecastEvidence at_once(cells, marks);
    at_once.Add(rows);
    for (const std::size_t size : {1U, 7U, 64U, 100U}) {
      ForecastEvidence split(cells, marks);
      for (std::size_t first = 0; first < rows.size(); first += size) {
        split.Add(std::span(rows).subspan(first, std::min(size, rows.size() - first)));
        // Readings have no effect.
        if (first % 5 == 0) (void)split.Read();
      }
      EXPECT_TRUE(SameBits(split, at_once)) << size;
    }
  }
}

TEST(ForecastEvidenceTest, RestoredStateContinuesWithTheSameBits) {
  const auto cells = CellsFor(NormalForecasts{});
  for (const double scale : {1., 2., 20.}) {
    const std::vector<ForecastRow> rows = NormalRows(*cells, 600, .2, scale, 6);
    EvidenceMarks marks{.log_e = std::log(20), .log_shiryaev_roberts = std::log(1000)};
    ForecastEvidence whole(cells, marks);
    ForecastEvidence moved(cells, marks);
    for (std::size_t i = 0; i < rows.size(); ++i) {
      whole.Add(std::span(rows).subspan(i, 1));
      moved.Add(std::span(rows).subspan(i, 1));
      if (i % 37 == 0 || i < 3 || i == 63 || i == 64) {
        ForecastEvidence restored(cells, marks);
        ASSERT_TRUE(restored.Restore(moved.Save()).ok());
        EXPECT_TRUE(SameBits(restored, moved)) << i;
        moved = restored;
      }
      if (i == 400) {
        marks.log_shiryaev_roberts = std::log(500);
        whole.RestartDrift(std::log(500));
        moved.RestartDrift(std::log(500));
        EXPECT_EQ(whole.Read().drift.log10_now, 0);
        EXPECT_EQ(whole.Read().drift_reached_at, 0);
      }
    }
    EXPECT_TRUE(SameBits(whole, moved));
  }
}

// The histograms of a state have names, so that another version may have others.
TEST(ForecastEvidenceTest, AStateFromBeforeAHistogramExistedContinuesWithTheSameEValue) {
  const auto cells = CellsFor(NormalForecasts{});
  const std::vector<ForecastRow> rows = NormalRows(*cells, 1280, .1, 1.2, 9);
  const auto log_families = [](const ForecastEvidence& evidence) {
    std::vector<double> logs;
    const auto of_families = evidence.Read().evidence.family_log10_e_value;
    for (const double log10 : std::span(of_families).first(kCellFamilyCount)) {
      logs.push_back(log10 * std::numbers::ln10);
    }
    return logs;
  };
  ForecastEvidence evidence(cells);
  // No observation is pending after a multiple of 64.
  evidence.Add(std::span(rows).first(64));
  ForecastEvidenceState state = evidence.Save();
  ASSERT_TRUE(state.pending.empty());
  constexpr std::size_t kNew = kHistogramWeights.size() - 1;
  state.histogram_weights.pop_back();
  for (auto* const logs : {&state.log_histograms, &state.log_shiryaev_roberts}) {
    const std::size_t first = logs == &state.log_histograms ? 0 : kLocationScaleCount;
    logs->erase(logs->begin() + static_cast<std::ptrdiff_t>(first + kNew));
  }
  std::vector<double> families = log_families(evidence);
  families[static_cast<std::size_t>(ForecastFamily::kHistogram)] =
      LogMean({state.log_histograms.begin(), state.log_histograms.begin() + kNew});
  const double before = LogMean(families);

  EXPECT_NEAR(state.log_e_value, evidence.LogEValue(), 1e-9);
  state.log_e_value = before;

  ForecastEvidence restored(cells);
  ASSERT_TRUE(restored.Restore(state).ok());
  EXPECT_NEAR(restored.LogEValue(), before, 1e-9 * std::abs(before));
  EXPECT_EQ(restored.Read().maximum, evidence.Read().maximum);
  const double offset = before - LogMean(log_families(restored));
  EXPECT_GT(std::abs(offset), 1e-6);
  // The new histogram bets from now on, from the same past as the others.
  const ForecastEvidenceState saved = restored.Save();
  EXPECT_EQ(saved.log_histograms[kNew], 0);
  EXPECT_EQ(saved.histogram_weights.size(), kHistogramWeights.size());
  restored.Add(std::span(rows).subspan(64));
  const double now = LogMean(log_families(restored)) + offset;
  EXPECT_NEAR(restored.LogEValue(), now, 1e-9 * std::abs(now));
  ForecastEvidence again(cells);
  ASSERT_TRUE(again.Restore(restored.Save()).ok());
  EXPECT_TRUE(SameBits(again, restored));
}

TEST(ForecastEvidenceTest, RejectsStatesOfOtherCells) {
  const auto cells = CellsFor(NormalForecasts{});
  ForecastEvidence evidence(cells);
  evidence.Add(NormalRows(*cells, 100, 0, 1, 8));
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
  rejects([](State& s) { s.counts.strata.resize(8 * 23); });
  rejects([](State& s) { s.histogram_weights.pop_back(); });
  rejects([](State& s) { s.histogram_weights[0] = s.histogram_weights[1]; });
  rejects([](State& s) { s.stratum_histogram_weights[0] = -1; });
  rejects([](State& s) { s.location_scale_ids.pop_back(); });
  rejects([](State& s) { s.location_scale_ids[0] = s.location_scale_ids[1]; });
  rejects([nan](State& s) { s.log_offset = nan; });
  rejects([nan](State& s) { s.log_e_value = nan; });
  rejects([](State& s) { s.counts.strata[5] = -1; });
  rejects([](State& s) { s.counts.strata[5] += 1; });
  rejects([](State& s) { s.counts.strata.assign(8 * 24, std::int64_t{1} << 60); });
  rejects([&](State& s) { s.counts.crps = nan; });
  rejects([](State& s) { s.maximum.at = 101; });
  rejects([&](State& s) { s.shiryaev_roberts_maximum.log_value = nan; });
  rejects([](State& s) { s.drift_reached_at = -1; });
  rejects([](State& s) { s.log_histograms.pop_back(); });
  rejects([](State& s) { s.log_shiryaev_roberts[3] = -1; });
  rejects([&](State& s) { s.log_shiryaev_roberts[77] = nan; });
  rejects([](State& s) { s.recent[0] = -1; });
  rejects([&](State& s) { s.recent[0] = nan; });
  rejects([](State& s) { s.pending.resize(64); });
  rejects([](State& s) { s.pending[0] = 24 * 16; });
  rejects([](State& s) { s.pending[0] = -1; });
  // There are more pending rows than rows.
  rejects([](State& s) { s.pending.assign(63, s.pending[0]); });
}

// The evidence of parts of a stream is that of the whole stream.
TEST(ForecastEvidenceTest, PartsAddUp) {
  const auto cells = CellsFor(NormalForecasts{});
  const std::vector<ForecastRow> rows = NormalRows(*cells, 900, .1, 1.1, 11);
  ForecastEvidence whole(cells);
  whole.Add(rows);
  std::vector<ForecastEvidence> parts(3, ForecastEvidence(cells));
  for (std::size_t i = 0; i < rows.size(); ++i) parts[i % 7 % 3].Add(std::span(rows).subspan(i, 1));
  const auto reading =
      CombineDisjoint(std::vector<const ForecastEvidence*>{&parts[0], &parts[1], &parts[2]});
  ASSERT_TRUE(reading.ok());
  const ForecastEvidenceReading expected = whole.Read();
  EXPECT_EQ(reading->count, 900);
  EXPECT_EQ(reading->counts.strata, expected.counts.strata);
  EXPECT_NEAR(reading->counts.crps, expected.counts.crps, 1e-9);
  // These bits are equal, because both are functions of the counts.
  EXPECT_EQ(reading->evidence.log10_e_value, EvidenceOf(*cells, whole.counts()).log10_e_value);
  ExpectClose(reading->evidence.log10_e_value, expected.evidence.log10_e_value, "merged");
  double sum = 0;
  for (const ForecastEvidence& part : parts) {
    sum += std::pow(10, part.Read().drift.log10_now) / 3;
  }
  EXPECT_NEAR(reading->drift.log10_now, std::log10(sum), 1e-12);

  ForecastCounts late = whole.counts();
  late.Subtract(parts[0].counts());
  ForecastCounts others = parts[1].counts();
  others.Merge(parts[2].counts());
  EXPECT_EQ(late.strata, others.strata);
  EXPECT_NEAR(late.t_square, others.t_square, 1e-9);

  EXPECT_FALSE(CombineDisjoint(std::span<const ForecastEvidence* const>()).ok());
  const ForecastEvidence other(CellsFor(QuantileForecasts{{.5}}));
  EXPECT_FALSE(CombineDisjoint(std::vector<const ForecastEvidence*>{&whole, &other}).ok());
}

TEST(ForecastEvidenceTest, RecordsWhenMarksWereReached) {
  const auto cells = CellsFor(NormalForecasts{});
  const EvidenceMarks marks{.log_e = std::log(20), .log_shiryaev_roberts = std::log(1000)};
  ForecastEvidence evidence(cells, marks);
  ReferenceProcesses reference(*cells);
  std::int64_t reached = 0;
  std::int64_t drift_reached = 0;
  for (const ForecastRow& row : NormalRows(*cells, 300, 0, 1.8, 2)) {
    evidence.Add(std::span(&row, 1));
    reference.Add(row);
    if (reached == 0 && reference.maximum.log_value >= marks.log_e) reached = reference.count;
    if (drift_reached == 0 &&
        reference.shiryaev_roberts_maximum.log_value >= marks.log_shiryaev_roberts) {
      drift_reached = reference.count;
    }
  }
  EXPECT_GT(reached, 1);
  EXPECT_EQ(evidence.Read().evidence_reached_at, reached);
  EXPECT_EQ(evidence.Read().drift_reached_at, drift_reached);
  ForecastEvidence restored(cells, marks);
  ASSERT_TRUE(restored.Restore(evidence.Save()).ok());
  EXPECT_EQ(restored.Read().evidence_reached_at, reached);
}

// Averaged over the cells of the next outcome, all processes are martingales up to the tolerance:
// E W' = W / (1 + tolerance), and E R' = (1 + R) / (1 + tolerance).
TEST(ForecastEvidenceTest, ProcessesAreMartingales) {
  for (const NumberForecastKind& kind :
       {NumberForecastKind(NormalForecasts{}), NumberForecastKind(QuantileForecasts{{.2, .9}})}) {
    const auto cells = CellsFor(kind);
    ForecastEvidence evidence(cells);
    for (const ForecastRow& before : RandomRows(cells->cell_count(), 150, 21)) {
      const ForecastEvidenceReading now = evidence.Read();
      double e = 0;
      double r = 0;
      for (std::size_t c = 0; c < cells->cell_count(); ++c) {
        ForecastEvidence next = evidence;
        ForecastRow row = before;
        row.cell = static_cast<std::uint8_t>(c);
        next.Add(std::span(&row, 1));
        e += cells->smoothed()[c] * std::exp(next.LogEValue() - evidence.LogEValue());
        r += cells->smoothed()[c] * (std::pow(10, next.Read().drift.log10_now) - 1);
      }
      EXPECT_NEAR(e, 1 / (1 + cells->tolerance()), 1e-12);
      const double expected = std::pow(10, now.drift.log10_now) / (1 + cells->tolerance());
      EXPECT_NEAR(r / expected, 1, 1e-10);
      evidence.Add(std::span(&before, 1));
    }
  }
}

TEST(ForecastEvidenceTest, SurvivesAnOutcomeThatNeverHappens) {
  // All outcomes are in a cell of probability 1e-300.
  const auto cells = CellsFor(QuantileForecasts{{1e-300, .5}}, kMinTolerance);
  ForecastEvidence evidence(cells);
  ReferenceProcesses reference(*cells);
  for (std::size_t i = 0; i < 500; ++i) {
    ForecastRow row;
    row.cell = i < 300 ? 0 : 1;
    evidence.Add(std::span(&row, 1));
    reference.Add(row);
  }
  ExpectAgreement(evidence, reference);
  EXPECT_GT(evidence.Read().maximum.log_value, 1000);
}

TEST(ForecastEvidenceTest, DirectionIsThatOfTheOutcomes) {
  const auto cells = CellsFor(NormalForecasts{});
  const auto direction_of = [&](double shift, double scale) {
    ForecastEvidence evidence(cells);
    evidence.Add(NormalRows(*cells, 4000, shift, scale, 12));
    return DirectionOf(*cells, evidence.counts().Cells());
  };
  // The standard errors are at most the scale over sqrt(4000), and a third more for cells.
  for (const LocationScale truth :
       {LocationScale{.25, 1}, LocationScale{-.5, 1}, LocationScale{0, 2}, LocationScale{.1, .67},
        LocationScale{2, 1}, LocationScale{-3, 1.5}}) {
    const ForecastDirection direction = direction_of(truth.shift, truth.scale);
    EXPECT_NEAR(direction.best.shift, truth.shift, 5 * truth.scale * 1.33 / std::sqrt(4000));
    EXPECT_NEAR(direction.best.scale, truth.scale, 5 * truth.scale * 1.33 / std::sqrt(4000));
  }
  EXPECT_GT(direction_of(.1, .67).share, .9);
  const ForecastDirection none = DirectionOf(*cells, ForecastCounts(cells->cell_count()).Cells());
  EXPECT_EQ(none.best, LocationScale());
  EXPECT_EQ(none.share, 0);
}

TEST(ForecastEvidenceTest, TheDirectionHasTheLargestLikelihood) {
  const auto likelihood = [](std::span<const double> edges, std::span<const std::int64_t> counts,
                             double shift, double scale) {
    double sum = 0;
    double below = 0;
    for (std::size_t c = 0; c < counts.size(); ++c) {
      const double lower = c == 0 ? 0 : edges[c - 1];
      const double upper = c < edges.size() ? edges[c] : 1;
      const double up =
          c < edges.size()
              ? std::erfc(-(NormalQuantile(edges[c]) - shift) / scale / std::numbers::sqrt2) / 2
              : 1;
      sum += (static_cast<double>(counts[c]) + upper - lower) * std::log(up - below);
      below = up;
    }
    return sum;
  };
  const std::vector<double> edges{.05, .25, .5, .75, .95};
  for (const std::vector<std::int64_t>& counts :
       std::vector<std::vector<std::int64_t>>{{10, 40, 100, 300, 400, 150},
                                              {200, 100, 50, 50, 100, 200},
                                              {0, 0, 500, 500, 0, 0},
                                              {0, 0, 0, 0, 3, 997}}) {
    const LocationScale best = FitLocationScale(edges, counts);
    const double most = likelihood(edges, counts, best.shift, best.scale);
    for (double shift = -1; shift <= 1; shift += .05) {
      for (double log_scale = -1; log_scale <= 1; log_scale += .05) {
        EXPECT_LE(likelihood(edges, counts, best.shift + shift, best.scale * std::exp(log_scale)),
                  most + 1e-6);
      }
    }
  }
  // All outcomes are in one cell.
  const LocationScale above = FitLocationScale(edges, std::vector<std::int64_t>{0, 0, 0, 0, 0, 9});
  EXPECT_GT(above.shift, 2);
  EXPECT_LE(above.shift, 10);
  EXPECT_TRUE(std::isfinite(above.scale));
  // Two cells: 1000.5 of 4001 outcomes are below the median.
  const LocationScale two =
      FitLocationScale(std::vector{.5}, std::vector<std::int64_t>{1000, 3000});
  EXPECT_NEAR(two.shift, -NormalQuantile(1000.5 / 4001), 1e-12);
  EXPECT_EQ(two.scale, 1);
}

// One of the 69 experts always fits best. An e-value of 100 occurs with probability 0.01 at most.
TEST(ForecastEvidenceTest, CalibratedForecastsHaveNoDirection) {
  for (const NumberForecastKind& kind :
       {NumberForecastKind(NormalForecasts{}), NumberForecastKind(QuantileForecasts{{.1, .5, .9}}),
        NumberForecastKind(SampleForecasts{20})}) {
    const auto cells = CellsFor(kind);
    std::mt19937_64 random(31);
    const std::vector<double> probabilities(cells->probabilities().begin(),
                                            cells->probabilities().end());
    std::discrete_distribution<std::size_t> cell(probabilities.begin(), probabilities.end());
    int named = 0;
    for (int stream = 0; stream < 100; ++stream) {
      std::vector<std::int64_t> counts(cells->cell_count());
      for (int i = 0; i < 2000; ++i) ++counts[cell(random)];
      named += DirectionOf(*cells, counts).best == LocationScale() ? 0 : 1;
    }
    // 1 is expected at most; 5 standard deviations more by chance.
    EXPECT_LE(named, 6) << cells->cell_count();
  }
}

TEST(ForecastEvidenceTest, AnExtremeResidualIsNoDeviationOfZero) {
  ForecastCounts counts(24);
  for (const double t : {-1.0, 1.0, 0.5, 1e300}) {
    ForecastRow row;
    row.t = t;
    counts.Add(row);
  }
  const double mean = counts.t / 4;
  const double deviation = std::sqrt(counts.t_square / 4 - mean * mean);
  // The mean is within two standard errors of 0, as that of any four values with one outlier.
  EXPECT_LT(std::abs(mean), 2 * deviation / 2);
}

TEST(ForecastEvidenceTest, CellsStandOut) {
  const auto cells = CellsFor(NormalForecasts{});
  ForecastEvidence evidence(cells);
  evidence.Add(NormalRows(*cells, 2000, 0, 1, 13));
  for (const CellDeviation& cell : CellDeviations(*cells, evidence.counts().Cells())) {
    EXPECT_FALSE(cell.stands_out) << cell.cell;
  }
  ForecastRow outlier;
  outlier.cell = 23;
  for (int i = 0; i < 20; ++i) evidence.Add(std::span(&outlier, 1));
  const std::vector<CellDeviation> all = CellDeviations(*cells, evidence.counts().Cells());
  EXPECT_TRUE(all[23].stands_out);
  EXPECT_NEAR(all[23].expected, 2.02, 1e-9);
  EXPECT_NEAR(all[23].lower, .999, 1e-15);
  EXPECT_EQ(all[23].upper, 1);
  EXPECT_EQ(all[0].lower, 0);
  EXPECT_NEAR(all[23].z, (static_cast<double>(all[23].count) - 2.02) / std::sqrt(2.02 * .999),
              1e-9);
}

TEST(ForecastEvidenceTest, SubnormalNumbersOfTheCallerStay) {
  const volatile double least = std::numeric_limits<double>::min();
  ForecastEvidence evidence(CellsFor(NormalForecasts{}));
  const ForecastRow row{};
  evidence.Add(std::span(&row, 1));
  EXPECT_GT(least / 2, 0);
  ASSERT_TRUE(evidence.Restore(evidence.Save()).ok());
  EXPECT_GT(least / 2, 0);
#if defined(__SSE2__)
  const FlushSubnormals flush;
  EXPECT_EQ(least / 2, 0);
#endif
}

TEST(ForecastEvidenceTest, MeansOfScoresAreThoseOfTheRows) {
  const auto cells = CellsFor(NormalForecasts{});
  ForecastEvidence evidence(cells);
  const std::vector<double> forecasts = {0, 1, 1, 2, 0, 1e-300};
  const std::vector<double> outcomes = {1, 0, 1e-5};
  evidence.Add({.forecasts = forecasts, .outcomes = outcomes}, 1);
  const ForecastCounts& counts = evidence.counts();
  EXPECT_EQ(counts.count(), 3);
  EXPECT_EQ(counts.t, kMostResidual);
  EXPECT_EQ(counts.t_square, kMostResidual * kMostResidual);
  EXPECT_TRUE(std::isfinite(counts.log_score));
  ForecastEvidence restored(cells);
  EXPECT_TRUE(restored.Restore(evidence.Save()).ok());
}

}  // namespace
}  // namespace calibd
