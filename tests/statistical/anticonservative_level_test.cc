// The size of the tests that reject calibrated models too often, on the reference model M1 with n =
// 250, m = 10 (Widmann et al. 2019, Sec. 7) at level .05. Their caveats state it, and these tests
// check the caveats. Seeds are fixed. The number of rejections in S simulations is Binomial(S,
// size). The probability that a measured size of S0 = 1000 simulations and a new one differ by more
// than 5 standard deviations of their difference is 1e-6.
#include <gtest/gtest.h>

#include <cmath>

#include "calibd/core/consistency_resampling.h"
#include "calibd/core/generator.h"

namespace calibd {
namespace {

constexpr double kLevel = 0.05;

double Margin(double rate, int simulations, int measured_with) {
  return 5 * std::sqrt(rate * (1 - rate) * (1.0 / simulations + 1.0 / measured_with));
}

double ConsistencyRejectionRate(const BinnedErrorSpec& bins, int simulations,
                                const GeneratorSpec& spec = GeneratorSpec::M1()) {
  auto generator = Generator::Create(spec, 303);
  int rejected = 0;
  for (int i = 0; i < simulations; ++i) {
    PredictionSet set;
    generator->Draw(250, set);
    const auto result = ConsistencyTest(set.view(), bins,
                                        {.replicates = 199, .seed = static_cast<std::uint64_t>(i)});
    if (result->p_value <= kLevel) ++rejected;
  }
  return static_cast<double>(rejected) / simulations;
}

TEST(AnticonservativeLevelTest, ConsistencyResamplingDetectsMiscalibration) {
  // A power of .99 would show at least this in 100 simulations.
  const double least = 0.99 - 5 * std::sqrt(0.99 * 0.01 / 100);
  for (const GeneratorSpec& spec : {GeneratorSpec::M2(), GeneratorSpec::M3()}) {
    EXPECT_GE(ConsistencyRejectionRate(TopLabelBins{15}, 100, spec), least);
    EXPECT_GE(ConsistencyRejectionRate(MedianVarianceBins{10}, 100, spec), least);
  }
}

TEST(AnticonservativeLevelTest, ConsistencyResamplingRejectsMoreOftenWithFinerBins) {
  // Most of the ten bins per class hold one observation. Rows that are drawn twice then share a
  // bin, so that fewer bins of a replicate deviate, and every sample is rejected.
  EXPECT_GE(ConsistencyRejectionRate(UniformBins{10}, 50), 0.95);
  constexpr int kSimulations = 300;
  const double coarse = ConsistencyRejectionRate(UniformBins{2}, kSimulations);
  EXPECT_NEAR(coarse, 0.093, Margin(0.093, kSimulations, 1000));
  EXPECT_NEAR(ConsistencyRejectionRate(MedianVarianceBins{10}, kSimulations), 0.090,
              Margin(0.090, kSimulations, 1000));
  EXPECT_NEAR(ConsistencyRejectionRate(ClassWiseBins{15}, kSimulations), 0.126,
              Margin(0.126, kSimulations, 1000));
  EXPECT_NEAR(ConsistencyRejectionRate(TopLabelBins{15}, kSimulations), 0.055,
              Margin(0.055, kSimulations, 1000));
}

}  // namespace
}  // namespace calibd
