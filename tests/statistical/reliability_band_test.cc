// The coverage of the bands of reliability diagrams, on the calibrated model M1 (Widmann et al.
// 2019, Sec. 7). Seeds are fixed. The number of S simulations in which a band with coverage c
// contains the value is Binomial(S, c): a bound is 5 standard deviations away, which gives a
// false-failure probability below 1e-6.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>

#include "calibd/core/generator.h"
#include "calibd/core/reliability.h"

namespace calibd {
namespace {

constexpr double kLevel = 0.9;

double Margin(int trials) { return 5 * std::sqrt(kLevel * (1 - kLevel) / trials); }

BinaryPredictions DrawTopLabel(Generator& generator, std::size_t n) {
  PredictionSet set;
  generator.Draw(n, set);
  return TopLabelPredictions(set.view());
}

// The share of simulations in which the regression at the prediction of middle rank
// lies in the band.
double CorpCoverage(const GeneratorSpec& spec, std::size_t n, int simulations) {
  auto generator = Generator::Create(spec, 201);
  int inside = 0;
  for (int i = 0; i < simulations; ++i) {
    const BinaryPredictions predictions = DrawTopLabel(*generator, n);
    // Three points, of which the second has the middle rank.
    const auto corp = EstimateCorpReliability(
        predictions, {.replicates = 199, .seed = static_cast<std::uint64_t>(i), .band_points = 3});
    const BandPoint& point = corp->band.at(1);
    const auto block = std::find_if(
        corp->blocks.begin(), corp->blocks.end(),
        [&](const ReliabilityBlock& candidate) { return candidate.upper >= point.prediction; });
    if (block->recalibrated >= point.consistency.lower &&
        block->recalibrated <= point.consistency.upper) {
      ++inside;
    }
  }
  return static_cast<double>(inside) / simulations;
}

TEST(ReliabilityBandTest, CorpBandHasItsLevelUnderCalibration) {
  // The coverage is at least the level at every n: ties among the regressions can only increase it.
  EXPECT_GE(CorpCoverage(GeneratorSpec::M1(), 20, 3000), kLevel - Margin(3000));
  const double coverage = CorpCoverage(GeneratorSpec::M1(), 250, 3000);
  EXPECT_GE(coverage, kLevel - Margin(3000));
  // The band is not wider than necessary: ties are rare with n = 250.
  EXPECT_LE(coverage, kLevel + Margin(3000) + 0.02);
}

TEST(ReliabilityBandTest, CorpBandShowsMiscalibration) {
  EXPECT_LE(CorpCoverage(GeneratorSpec::M3(), 250, 200), 0.5);
}

TEST(ReliabilityBandTest, BinnedBandsHaveTheirLevelUnderCalibration) {
  auto generator = Generator::Create(GeneratorSpec::M1(), 202);
  int bins = 0;
  int in_consistency_band = 0;
  for (int i = 0; i < 2000; ++i) {
    const auto reliability = BinnedReliability(DrawTopLabel(*generator, 250));
    for (const ReliabilityBin& bin : *reliability) {
      ++bins;
      if (bin.frequency >= bin.consistency.lower && bin.frequency <= bin.consistency.upper) {
        ++in_consistency_band;
      }
    }
  }
  // The labels are independent given the predictions, and so are the bins.
  EXPECT_GE(static_cast<double>(in_consistency_band) / bins, kLevel - Margin(bins));
}

TEST(ReliabilityBandTest, ConfidenceIntervalsContainTheTrueFrequency) {
  // A single bin in which all labels have the same probability.
  auto generator = Generator::Create({{1000, 1000}, 1, {0.3, 0.7}}, 203);
  constexpr int kSimulations = 3000;
  int inside = 0;
  for (int i = 0; i < kSimulations; ++i) {
    PredictionSet set;
    generator->Draw(30, set);
    const auto bins = BinnedReliability(*ClassPredictions(set.view(), 0), {.bins = 1});
    if (bins->front().confidence.lower <= 0.3 && bins->front().confidence.upper >= 0.3) ++inside;
  }
  EXPECT_GE(static_cast<double>(inside) / kSimulations, kLevel - Margin(kSimulations));
}

}  // namespace
}  // namespace calibd
