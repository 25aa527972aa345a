// The coverage of the confidence statements about the SKCE, on the miscalibrated reference models
// with n = 250, m = 10 (Widmann et al. 2019, Sec. 7). Seeds are fixed. A bound is 5 standard
// deviations of the binomial share away, which gives a false-failure probability below 1e-6.
#include <gtest/gtest.h>

#include <cmath>

#include "calibd/core/generator.h"
#include "calibd/core/p_value.h"
#include "calibd/core/running_skce.h"
#include "calibd/core/skce.h"
#include "level_bound.h"

namespace calibd {
namespace {

using testing::Margin;

constexpr std::size_t kN = 250;
constexpr double kConfidence = 0.95;

TEST(IntervalCoverageTest, HoldsTheSkceOfM2AndM3) {
  constexpr int kSimulations = 2000;
  const Kernel kernel = *Kernel::ExponentialTotalVariation(0.9);
  for (const GeneratorSpec& spec : {GeneratorSpec::M2(), GeneratorSpec::M3()}) {
    // There are so many that the error is small compared with that of a sample of 250.
    PredictionSet many;
    Generator::Create(spec, 501)->Draw(10000, many);
    const double skce = EstimateQuadraticSkce(many.view(), kernel)->unbiased;
    auto generator = Generator::Create(spec, 502);
    int below_lower_bound = 0;
    int outside_deviation = 0;
    for (int i = 0; i < kSimulations; ++i) {
      PredictionSet set;
      generator->Draw(kN, set);
      const PredictionBatch batch = set.view();
      auto pairs = RunningBlockSkce::Create(2, batch.class_count, kernel);
      for (std::size_t row = 0; row < kN; ++row) pairs->Add(batch.row(row), batch.labels[row]);
      if (skce < *LowerConfidenceBound(pairs->moments(), kConfidence)) ++below_lower_bound;
      const double radius = KceDeviation(kN, Kernel::DistributionFreeBound(), kConfidence);
      const double estimate = EstimateQuadraticSkce(batch, kernel)->biased;
      if (std::abs(std::sqrt(estimate) - std::sqrt(skce)) > radius) ++outside_deviation;
    }
    // Edgeworth: the error of the normal bound with 125 pairs is .006 for a skewness up to 2.
    EXPECT_NEAR(static_cast<double>(below_lower_bound) / kSimulations, 1 - kConfidence,
                Margin(kConfidence, kSimulations) + 0.006)
        << "pi = " << spec.pi;
    // Valid for every distribution, and therefore wide.
    EXPECT_EQ(outside_deviation, 0) << "pi = " << spec.pi;
  }
}

}  // namespace
}  // namespace calibd
