#include "calibd/core/p_value.h"

#include <gtest/gtest.h>

#include <cmath>

namespace calibd {
namespace {

TEST(DistributionFreeBoundTest, IsOneWithoutEvidence) {
  EXPECT_EQ(BiasedPValueUpperBound(0, 100, 2), 1);
  EXPECT_EQ(BiasedPValueUpperBound(0.02, 100, 2), 1);  // sqrt(n SKCE / B) = 1
  EXPECT_EQ(UnbiasedPValueUpperBound(0, 100, 2), 1);
  EXPECT_EQ(UnbiasedPValueUpperBound(-0.5, 100, 2), 1);
  EXPECT_EQ(BlockPValueUpperBound(-0.5, 10, 10, 2), 1);
}

TEST(DistributionFreeBoundTest, HasTheClosedForm) {
  // sqrt(100 x .18 / 2) = 3.
  EXPECT_NEAR(BiasedPValueUpperBound(0.18, 100, 2), std::exp(-2), 1e-15);
  EXPECT_NEAR(UnbiasedPValueUpperBound(0.4, 101, 2), std::exp(-50 * 0.16 / 8), 1e-15);
  // A block of 5 has 2 disjoint pairs.
  EXPECT_NEAR(BlockPValueUpperBound(0.4, 20, 5, 2), std::exp(-40 * 0.16 / 8), 1e-15);
  EXPECT_EQ(BlockPValueUpperBound(0.4, 50, 2, 2), UnbiasedPValueUpperBound(0.4, 100, 2));
}

TEST(KceDeviationTest, InvertsTheBound) {
  const double radius = KceDeviation(500, 2, 0.95);
  const double e = radius - 2 * std::sqrt(2.0 / 500);
  EXPECT_NEAR(std::exp(-e * e * 500 / 4), 0.05, 1e-14);
}

TEST(NormalTest, KeepsPrecisionFarInTheTail) {
  EXPECT_NEAR(NormalUpperTail(0), 0.5, 1e-16);
  EXPECT_NEAR(NormalUpperTail(1.959963984540054), 0.025, 1e-15);
  // Q(10) and Q(30), from the continued fraction of Mills' ratio.
  EXPECT_NEAR(NormalUpperTail(10) / 7.619853024160527e-24, 1, 1e-12);
  EXPECT_NEAR(NormalUpperTail(30) / 4.906713927148187e-198, 1, 1e-12);
}

TEST(NormalTest, IsUnsetBelowTwoValues) {
  EXPECT_FALSE(TestMeanIsPositive({0, 0, 0}).has_value());
  EXPECT_FALSE(TestMeanIsPositive({1, 0.5, 0}).has_value());
  EXPECT_FALSE(LowerConfidenceBound({1, 0.5, 0}, 0.95).has_value());
}

TEST(NormalTest, IsUnsetWithoutDeviation) {
  EXPECT_FALSE(TestMeanIsPositive({10, 0.5, 0}).has_value());
  EXPECT_FALSE(TestBlocks({100, 0.5, 0}).has_value());
}

TEST(NormalTest, NoPValueIsZero) {
  EXPECT_GT(NormalUpperTail(40), 0);
  EXPECT_GT(NormalUpperTail(1e9), 0);
}

TEST(BlockTest, NeedsThirtyBlocks) {
  EXPECT_FALSE(TestBlocks({29, 0.3, 28}).has_value());
  const auto test = TestBlocks({30, 0.3, 29});
  ASSERT_TRUE(test.has_value());
  EXPECT_NEAR(test->z, 0.3 * std::sqrt(30), 1e-15);
  EXPECT_EQ(test->p_value, NormalUpperTail(test->z));
  EXPECT_EQ(test->skce_lower_bound, *LowerConfidenceBound({30, 0.3, 29}, 0.95));
}

TEST(NormalTest, StandardisesTheMean) {
  // 26 values of mean .3 and variance 25 / 25 = 1.
  const auto test = TestMeanIsPositive({26, 0.3, 25});
  EXPECT_NEAR(test->standard_deviation, 1, 1e-15);
  EXPECT_NEAR(test->z, 0.3 * std::sqrt(26), 1e-15);
  EXPECT_NEAR(*LowerConfidenceBound({26, 0.3, 25}, 0.95), 0.3 - 1.6448536269514722 / std::sqrt(26),
              1e-14);
}

}  // namespace
}  // namespace calibd
