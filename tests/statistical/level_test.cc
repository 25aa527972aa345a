// The level and the power of the tests on the reference models with n = 250, m = 10
// (Widmann et al. 2019, Sec. 7). Seeds are fixed. With S simulations the number of
// rejections of a test of size p is Binomial(S, p): a bound is its quantile at a
// false-failure probability below 1e-6, from the normal approximation at 5 standard
// deviations.
#include <gtest/gtest.h>

#include <cmath>
#include <functional>

#include "calibd/core/bandwidth.h"
#include "calibd/core/bootstrap.h"
#include "calibd/core/generator.h"
#include "calibd/core/p_value.h"
#include "calibd/core/running_skce.h"
#include "level_bound.h"

namespace calibd {
namespace {

using testing::kLevel;
using testing::Margin;

constexpr std::size_t kN = 250;

using PValue = std::function<double(const PredictionBatch&, const Kernel&, std::uint64_t seed)>;

double BlockPValue(std::size_t block_size, const PredictionBatch& batch, const Kernel& kernel) {
  auto running = RunningBlockSkce::Create(block_size, batch.class_count, kernel);
  for (std::size_t i = 0; i < batch.size(); ++i) running->Add(batch.row(i), batch.labels[i]);
  return TestMeanIsPositive(running->moments())->p_value;
}

double Linear(const PredictionBatch& batch, const Kernel& kernel, std::uint64_t) {
  return BlockPValue(2, batch, kernel);
}

double Quadratic(const PredictionBatch& batch, const Kernel& kernel, std::uint64_t seed) {
  return BootstrapTest(batch, kernel, {.replicates = 199, .seed = seed})->p_value;
}

// The share of simulated samples with p <= level.
double RejectionRate(const GeneratorSpec& spec, int simulations, std::uint64_t seed,
                     const PValue& p_value) {
  auto generator = Generator::Create(spec, seed);
  int rejected = 0;
  for (int i = 0; i < simulations; ++i) {
    PredictionSet set;
    generator->Draw(kN, set);
    const Kernel kernel =
        *Kernel::ExponentialTotalVariation(*MedianBandwidth(set.probabilities, set.class_count));
    if (p_value(set.view(), kernel, seed + static_cast<std::uint64_t>(i)) <= kLevel) ++rejected;
  }
  return static_cast<double>(rejected) / simulations;
}

TEST(LevelTest, LinearTestHasItsLevelOnM1) {
  constexpr int kSimulations = 4000;
  const double rate = RejectionRate(GeneratorSpec::M1(), kSimulations, 101, Linear);
  // Edgeworth: the error of the size at N = 125 pairs is skewness / (6 sqrt N) (z^2 - 1) phi(z),
  // which is below .006 for a skewness up to 2.
  EXPECT_NEAR(rate, kLevel, Margin(kLevel, kSimulations) + 0.006);
}

TEST(LevelTest, QuadraticTestHasItsLevelOnM1) {
  constexpr int kSimulations = 1000;
  const double rate = RejectionRate(GeneratorSpec::M1(), kSimulations, 102, Quadratic);
  // The bootstrap is asymptotic: at n = 250 the level may deviate by .01 in either direction.
  EXPECT_NEAR(rate, kLevel, Margin(kLevel, kSimulations) + 0.01);
}

TEST(LevelTest, BlockTestHasItsLevelOnM1) {
  constexpr int kSimulations = 4000;
  const auto block = [](const PredictionBatch& batch, const Kernel& kernel, std::uint64_t) {
    return BlockPValue(10, batch, kernel);
  };
  const double rate = RejectionRate(GeneratorSpec::M1(), kSimulations, 108, block);
  // 25 blocks: the skewness of a block's estimate, up to 2, changes the size by .015, and Student's
  // t with 24 degrees of freedom instead of the normal distribution by .007.
  EXPECT_NEAR(rate, kLevel, Margin(kLevel, kSimulations) + 0.022);
}

TEST(LevelTest, DistributionFreeBoundsNeverRejectUnderM1) {
  // Valid for every n: the probability of a rejection is at most .05, and far less here.
  const auto smallest = [](const PredictionBatch& batch, const Kernel& kernel, std::uint64_t) {
    const auto skce = EstimateQuadraticSkce(batch, kernel);
    const double bound = Kernel::DistributionFreeBound();
    double least = std::min(BiasedPValueUpperBound(skce->biased, kN, bound),
                            UnbiasedPValueUpperBound(skce->unbiased, kN, bound));
    for (const std::size_t block_size : {2U, 10U, 100U}) {
      auto running = RunningBlockSkce::Create(block_size, batch.class_count, kernel);
      for (std::size_t i = 0; i < kN; ++i) running->Add(batch.row(i), batch.labels[i]);
      const RunningMoments& moments = running->moments();
      least =
          std::min(least, BlockPValueUpperBound(moments.mean, moments.count, block_size, bound));
    }
    return least;
  };
  EXPECT_EQ(RejectionRate(GeneratorSpec::M1(), 1000, 103, smallest), 0);
}

TEST(PowerTest, QuadraticTestDetectsM2AndM3) {
  for (const GeneratorSpec& spec : {GeneratorSpec::M2(), GeneratorSpec::M3()}) {
    // A power of .99 would show at least this in 200 simulations.
    EXPECT_GE(RejectionRate(spec, 200, 104, Quadratic), 0.99 - Margin(0.99, 200));
  }
}

// The number of rejections by each test of the SKCE on the same samples.
struct PowerOfTests {
  int biased_bound = 0;
  int unbiased_bound = 0;
  int linear_bound = 0;
  int linear = 0;
  int block = 0;
  int quadratic = 0;
};

PowerOfTests CountRejections(const GeneratorSpec& spec, int simulations, std::uint64_t seed) {
  auto generator = Generator::Create(spec, seed);
  const double bound = Kernel::DistributionFreeBound();
  PowerOfTests count;
  for (int i = 0; i < simulations; ++i) {
    PredictionSet set;
    generator->Draw(kN, set);
    const PredictionBatch batch = set.view();
    const Kernel kernel =
        *Kernel::ExponentialTotalVariation(*MedianBandwidth(set.probabilities, set.class_count));
    const auto test = BootstrapTest(
        batch, kernel, {.replicates = 199, .seed = seed + static_cast<std::uint64_t>(i)});
    auto pairs = RunningBlockSkce::Create(2, batch.class_count, kernel);
    for (std::size_t row = 0; row < kN; ++row) pairs->Add(batch.row(row), batch.labels[row]);
    const auto rejects = [](double p) { return p <= kLevel ? 1 : 0; };
    count.biased_bound += rejects(BiasedPValueUpperBound(test->skce.biased, kN, bound));
    count.unbiased_bound += rejects(UnbiasedPValueUpperBound(test->skce.unbiased, kN, bound));
    count.linear_bound += rejects(UnbiasedPValueUpperBound(pairs->moments().mean, kN, bound));
    count.linear += rejects(TestMeanIsPositive(pairs->moments())->p_value);
    count.block += rejects(BlockPValue(10, batch, kernel));
    count.quadratic += rejects(test->p_value);
  }
  return count;
}

void ExpectQuadraticHasTheMostPower(const PowerOfTests& count) {
  for (const int other :
       {count.biased_bound, count.unbiased_bound, count.linear_bound, count.linear, count.block}) {
    EXPECT_GE(count.quadratic, other);
  }
  // A bound that holds for every distribution costs power.
  EXPECT_GE(count.linear, count.linear_bound);
  EXPECT_GE(count.quadratic, count.unbiased_bound);
}

// The order of Fig. 2 of the paper.
TEST(PowerTest, QuadraticTestHasTheMostPowerOnM2AndM3) {
  for (const GeneratorSpec& spec : {GeneratorSpec::M2(), GeneratorSpec::M3()}) {
    ExpectQuadraticHasTheMostPower(CountRejections(spec, 200, 106));
  }
}

TEST(PowerTest, TheOrderIsStrictForWeakMiscalibration) {
  // Three in ten labels ignore the prediction.
  constexpr int kSimulations = 300;
  GeneratorSpec spec = GeneratorSpec::M3();
  spec.pi = 0.3;
  const PowerOfTests count = CountRejections(spec, kSimulations, 107);
  ExpectQuadraticHasTheMostPower(count);
  // Five standard deviations of a difference of paired counts, at most 5 sqrt(S).
  const double margin = 5 * std::sqrt(kSimulations);
  EXPECT_GT(count.quadratic - count.linear, margin);
  EXPECT_GT(count.quadratic - count.block, margin / 2);
  EXPECT_GT(count.quadratic - count.unbiased_bound, margin);
}

TEST(PowerTest, LinearTestRejectsM3MoreOftenThanItsLevel) {
  EXPECT_GE(RejectionRate(GeneratorSpec::M3(), 400, 105, Linear), kLevel + Margin(kLevel, 400));
}

}  // namespace
}  // namespace calibd
