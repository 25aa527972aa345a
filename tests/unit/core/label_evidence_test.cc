#include "calibd/core/label_evidence.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <limits>
#include <numbers>
#include <random>
#include <vector>

namespace calibd {
namespace {

constexpr double kLabelTolerance = 1e-3;
constexpr double kLabelEps = kLabelTolerance / 2;

struct Labels {
  std::vector<double> probabilities;
  std::vector<std::int8_t> truths;
  std::size_t label_count = 0;

  [[nodiscard]] MultilabelBatch view() const { return {probabilities, truths, label_count}; }
};

// Independent labels whose odds are `ratio` times the stated ones. A quarter of the truths is
// missing.
Labels DrawLabels(std::size_t label_count, std::size_t rows, double ratio = 1) {
  std::mt19937_64 rng(label_count);
  std::uniform_real_distribution<double> uniform(0, 1);
  Labels labels{.probabilities = {}, .truths = {}, .label_count = label_count};
  for (std::size_t i = 0; i < rows * label_count; ++i) {
    // Some numbers are exactly 0 or 1, and some labels are rare.
    const double g = i % 11 == 0 ? 0 : i % 13 == 0 ? 1 : std::pow(uniform(rng), i % 7 == 0 ? 4 : 1);
    labels.probabilities.push_back(g);
    const bool holds = uniform(rng) < ratio * g / (1 + g * (ratio - 1));
    labels.truths.push_back(uniform(rng) < 0.25 ? kMissingTruth : std::int8_t{holds});
  }
  return labels;
}

double MeanOfBet(double g, double ratio) {
  return 1 +
         (ratio > 1 ? std::min(1.0, g + kLabelEps) : std::max(0.0, g - kLabelEps)) * (ratio - 1);
}

// 0-based bin of a probability of at most 1/2.
std::size_t BinOfSmall(double p) {
  std::size_t bin = 0;
  while (bin < kLabelBins / 2 - 1 && p <= std::pow(2, -2 - static_cast<double>(bin))) ++bin;
  return bin;
}

struct LabelReference {
  double log10_e_value;
  double mean_drift;
};

// Label k by the formulas of the header.
LabelReference Reference(const Labels& labels, std::size_t k) {
  std::vector<long double> products(kLabelBets, 1);
  std::vector<long double> drift(kLabelBets, 0);
  long double histogram = 1;
  std::vector<double> count(kLabelBins);
  std::vector<double> held(kLabelBins);
  std::vector<double> stated(kLabelBins);
  for (std::size_t i = 0; i < labels.view().size(); ++i) {
    const double g = labels.probabilities[i * labels.label_count + k];
    const std::int8_t y = labels.truths[i * labels.label_count + k];
    for (long double& r : drift) r += 1;
    if (y == kMissingTruth) continue;
    const std::size_t side = g <= 0.5 ? 0 : 1;
    for (std::size_t j = 0; j < kLabelOddsRatios.size(); ++j) {
      const double ratio = kLabelOddsRatios[j];
      const double e = (y == 1 ? ratio : 1) / MeanOfBet(g, ratio);
      products[side * kLabelOddsRatios.size() + j] *= e;
      drift[side * kLabelOddsRatios.size() + j] *= e;
    }
    const std::size_t b = side * kLabelBins / 2 + BinOfSmall(side == 0 ? g : 1 - g);
    const double ratio = (held[b] + 3) * (std::max(0.0, count[b] - stated[b]) + 3) /
                         ((stated[b] + 3) * (count[b] - held[b] + 3));
    histogram *= (y == 1 ? ratio : 1) / MeanOfBet(g, ratio);
    count[b] += 1;
    held[b] += y;
    stated[b] += g;
  }
  long double sides[2] = {0, 0};
  long double mean_drift = 0;
  for (std::size_t j = 0; j < kLabelBets; ++j) {
    sides[j / kLabelOddsRatios.size()] += products[j] / kLabelOddsRatios.size();
    mean_drift += drift[j] / kLabelBets;
  }
  return {static_cast<double>(std::log10((sides[0] * sides[1] + histogram) / 2)),
          static_cast<double>(mean_drift)};
}

TEST(LabelEvidenceTest, IsTheMeanOverLabelsOfTheirMixtures) {
  for (const std::size_t label_count : {1U, 3U, 10U}) {
    for (const double ratio : {1.0, 1.4}) {
      const Labels labels = DrawLabels(label_count, 400, ratio);
      LabelEvidence evidence(label_count, kLabelTolerance);
      EXPECT_EQ(evidence.Read().log10_e_value, 0);
      evidence.Add(labels.view());
      const LabelEvidenceReading reading = evidence.Read();
      double mean = 0;
      double drift = 0;
      for (std::size_t k = 0; k < label_count; ++k) {
        const LabelReference expected = Reference(labels, k);
        EXPECT_NEAR(reading.label_log10_e_values[k], expected.log10_e_value, 1e-9) << k;
        mean += std::pow(10, expected.log10_e_value) / static_cast<double>(label_count);
        drift += expected.mean_drift / static_cast<double>(label_count);
      }
      EXPECT_NEAR(reading.log10_e_value, std::log10(mean), 1e-9);
      EXPECT_NEAR(reading.log10_drift, std::log10(1 + drift), 1e-9);
    }
  }
}

TEST(LabelEvidenceTest, NoBetGainsOnAverageUnderTheNullHypothesis) {
  // A past from which the histogram bets, of which half is under a wrong hypothesis.
  const Labels past = DrawLabels(1, 300, 3);
  LabelEvidence evidence(1, kLabelTolerance);
  evidence.Add(past.view());
  const double before = evidence.LogEValue();
  for (const double g : {0.0, 1e-9, 0.01, 0.3, 0.5, 0.5000001, 0.77, 0.999, 1.0}) {
    std::vector<double> gains;
    for (const int truth : {0, 1}) {
      const auto y = static_cast<std::int8_t>(truth);
      LabelEvidence next = evidence;
      next.Add({std::span(&g, 1), std::span(&y, 1), 1});
      gains.push_back(std::exp(next.LogEValue() - before));
    }
    for (const double p : {std::max(0.0, g - kLabelEps), g, std::min(1.0, g + kLabelEps)}) {
      EXPECT_LE(p * gains[1] + (1 - p) * gains[0], 1 + 1e-12) << g << " " << p;
    }
  }
}

TEST(LabelEvidenceTest, DoesNotDependOnHowASequenceIsSplitOrStored) {
  const Labels labels = DrawLabels(4, 700, 1.2);
  LabelEvidence whole(4, kLabelTolerance);
  whole.Add(labels.view());
  LabelEvidence parts(4, kLabelTolerance);
  for (std::size_t first = 0; first < 700;) {
    const std::size_t count = std::min<std::size_t>(1 + first % 97, 700 - first);
    LabelEvidence restored(4, kLabelTolerance);
    ASSERT_TRUE(restored.Restore(parts.Save()));
    restored.Add(labels.view().rows(first, count));
    parts = restored;
    first += count;
  }
  EXPECT_TRUE(whole.Save() == parts.Save());
  EXPECT_GT(whole.Read().maximum.log_value, 0);
}

TEST(LabelEvidenceTest, TheMaximumIsNeverBelowTheEvidence) {
  const Labels labels = DrawLabels(2, 400, 1.5);
  LabelEvidence evidence(2, kLabelTolerance);
  for (std::size_t i = 0; i < 400; ++i) {
    evidence.Add(labels.view().rows(i, 1));
    const LabelEvidenceReading reading = evidence.Read();
    EXPECT_GE(reading.maximum.log_value, reading.log10_e_value * std::numbers::ln10 - 1e-9);
    EXPECT_GE(reading.drift_maximum.log_value, reading.log10_drift * std::numbers::ln10 - 1e-9);
  }
}

TEST(LabelEvidenceTest, RecordsWhenTheMarksAreReached) {
  const Labels labels = DrawLabels(3, 4000, 2);
  const EvidenceMarks marks{.log_e = std::log(20), .log_shiryaev_roberts = std::log(1e4)};
  LabelEvidence evidence(3, kLabelTolerance, marks);
  std::int64_t reached = 0;
  for (std::size_t i = 0; i < 4000; ++i) {
    evidence.Add(labels.view().rows(i, 1));
    if (reached == 0 && i % 8 == 7 && evidence.LogEValue() >= marks.log_e) {
      reached = static_cast<std::int64_t>(i) + 1;
    }
  }
  EXPECT_GT(reached, 0);
  EXPECT_EQ(evidence.Read().evidence_reached_at, reached);
  EXPECT_GT(evidence.Read().drift_reached_at, 0);
  evidence.RestartDrift(std::log(1e4));
  EXPECT_EQ(evidence.Read().log10_drift, 0);
  EXPECT_EQ(evidence.Read().drift_reached_at, 0);
  EXPECT_EQ(evidence.Read().evidence_reached_at, reached);
}

// Calls change(first, ratios) for the bets of each side of each label, from the last one on, so
// that the change may move those behind it.
void ForEachSide(const LabelEvidenceState& state, const auto& change) {
  const auto ratios = static_cast<std::ptrdiff_t>(state.odds_ratios.size());
  const auto bets = static_cast<std::ptrdiff_t>(state.inverses.size());
  for (std::ptrdiff_t first = bets - ratios; first >= 0; first -= ratios) change(first);
}

// Removes a bet from a state, as if it were new in this version.
LabelEvidenceState Without(LabelEvidenceState state, std::ptrdiff_t bet) {
  ForEachSide(state, [&](std::ptrdiff_t first) {
    state.inverses.erase(state.inverses.begin() + first + bet);
    state.shiryaev_roberts.erase(state.shiryaev_roberts.begin() + first + bet);
  });
  state.odds_ratios.erase(state.odds_ratios.begin() + bet);
  return state;
}

// Adds a bet that this version lacks.
LabelEvidenceState WithUnknownBet(LabelEvidenceState state) {
  ForEachSide(state, [&](std::ptrdiff_t first) {
    state.inverses.insert(state.inverses.begin() + first, 1e-3);
    state.shiryaev_roberts.insert(state.shiryaev_roberts.begin() + first, 1e4);
  });
  state.odds_ratios.insert(state.odds_ratios.begin(), 7);
  return state;
}

// The e-value of a label by the formula of the header.
double EValueOfLabel(const LabelEvidenceState& state, std::size_t k) {
  const std::size_t ratios = state.odds_ratios.size();
  double fixed = 1;
  for (std::size_t side = 0; side < kLabelSides; ++side) {
    double sum = 0;
    for (std::size_t j = 0; j < ratios; ++j) {
      sum += 1 / state.inverses[(k * kLabelSides + side) * ratios + j];
    }
    fixed *= sum / static_cast<double>(ratios);
  }
  return (fixed + 1 / state.histogram[k]) / 2;
}

TEST(LabelEvidenceTest, AStateWithOtherBetsContinuesWithItsEValues) {
  constexpr std::size_t kCount = 3;
  const Labels labels = DrawLabels(kCount, 500, 1.4);
  LabelEvidence evidence(kCount, kLabelTolerance);
  evidence.Add(labels.view());
  std::vector<LabelEvidenceState> others = {WithUnknownBet(evidence.Save())};
  for (std::size_t j = 0; j < kLabelOddsRatios.size(); ++j) {
    others.push_back(Without(evidence.Save(), static_cast<std::ptrdiff_t>(j)));
  }
  others.push_back(WithUnknownBet(Without(evidence.Save(), 0)));
  for (const LabelEvidenceState& other : others) {
    LabelEvidence restored(kCount, kLabelTolerance);
    ASSERT_TRUE(restored.Restore(other));
    const LabelEvidenceReading reading = restored.Read();
    for (std::size_t k = 0; k < kCount; ++k) {
      EXPECT_NEAR(reading.label_log10_e_values[k], std::log10(EValueOfLabel(other, k)), 1e-12);
    }
    double drift = 0;
    for (const double value : other.shiryaev_roberts) drift += value;
    drift /= static_cast<double>(other.shiryaev_roberts.size());
    EXPECT_NEAR(reading.log10_drift, std::log10(1 + drift), 1e-12);
    EXPECT_GT(std::abs(reading.log10_e_value - evidence.Read().log10_e_value), 1e-6)
        << "the change changes nothing";
    // The present bets go on, and gain nothing on average.
    const std::vector<double> g = {0.3, 0.5, 0.9};
    double mean = 0;
    for (int truths = 0; truths < 8; ++truths) {
      std::vector<std::int8_t> row(kCount);
      double probability = 1;
      for (std::size_t k = 0; k < kCount; ++k) {
        row[k] = static_cast<std::int8_t>(truths >> k & 1);
        probability *= row[k] == 1 ? g[k] : 1 - g[k];
      }
      LabelEvidence next = restored;
      next.Add({g, row, kCount});
      EXPECT_TRUE(std::ranges::equal(next.Save().odds_ratios, kLabelOddsRatios));
      mean += probability * std::exp(next.LogEValue() - restored.LogEValue());
    }
    EXPECT_LE(mean, 1 + 1e-12);
  }
}

TEST(LabelEvidenceTest, EveryStateCanBeRestored) {
  // The largest factors: swapped columns, and many truths as stated before others.
  for (const double stated : {0.0, .001, .05, .4, .6, .99, 1.0}) {
    LabelEvidence evidence(1, kLabelTolerance);
    const std::vector<double> g = {stated};
    for (int i = 0; i < 60000; ++i) {
      const std::vector<std::int8_t> truth = {
          static_cast<std::int8_t>((stated < .5) == (i < 40000) ? 1 : 0)};
      evidence.Add({g, truth, 1});
      LabelEvidence restored(1, kLabelTolerance);
      ASSERT_TRUE(restored.Restore(evidence.Save())) << stated << " after row " << i + 1;
      ASSERT_TRUE(std::isfinite(evidence.LogEValue())) << stated << " after row " << i + 1;
    }
  }
}

TEST(LabelEvidenceTest, StaysFiniteAndRefusesInvalidStates) {
  LabelEvidence evidence(2, kLabelTolerance);
  const std::vector<double> certain = {1, 0};
  const std::vector<std::int8_t> never = {0, 1};
  for (int i = 0; i < 3000; ++i) evidence.Add({certain, never, 2});
  EXPECT_GT(evidence.Read().log10_e_value, 100);
  EXPECT_TRUE(std::isfinite(evidence.Read().log10_drift));
  EXPECT_TRUE(LabelEvidence(2, kLabelTolerance).Restore(evidence.Save()));
  EXPECT_FALSE(LabelEvidence(3, kLabelTolerance).Restore(evidence.Save()));
  for (auto spoil : {+[](LabelEvidenceState& s) { s.inverses[0] = 0; },
                     +[](LabelEvidenceState& s) { s.histogram[1] = -1; },
                     +[](LabelEvidenceState& s) {
                       s.shiryaev_roberts[0] = std::numeric_limits<double>::quiet_NaN();
                     },
                     +[](LabelEvidenceState& s) { s.bin_held[0] = s.bin_count[0] + 1; },
                     +[](LabelEvidenceState& s) { s.bin_stated[0] = -1; },
                     +[](LabelEvidenceState& s) { s.odds_ratios[1] = s.odds_ratios[0]; },
                     +[](LabelEvidenceState& s) { s.odds_ratios[0] = 0; },
                     +[](LabelEvidenceState& s) { s.odds_ratios.pop_back(); },
                     +[](LabelEvidenceState& s) { s.odds_ratios.clear(); },
                     +[](LabelEvidenceState& s) { s.count = -1; }}) {
    LabelEvidenceState state = evidence.Save();
    spoil(state);
    EXPECT_FALSE(LabelEvidence(2, kLabelTolerance).Restore(state));
  }
}

}  // namespace
}  // namespace calibd
