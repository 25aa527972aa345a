#include "calibd/core/confidence_sequence.h"

#include <gtest/gtest.h>

#include <cmath>

namespace calibd {
namespace {

RunningMoments Moments(std::int64_t count, double mean, double variance) {
  return {.count = count, .mean = mean, .m2 = variance * static_cast<double>(count - 1)};
}

TEST(LowerConfidenceSequenceTest, IsTheFormulaWithNumbersWorkedOutByHand) {
  // alpha = .05: log .1 = -2.302585; rho^2 = (4.605170 + log 5.605170) / 2000 = .00316434;
  // t = 1000: t rho^2 + 1 = 4.164345; sqrt of it 2.0406726; log(1 + 20.406726) = 3.0637133;
  // 2 * 4.164345 / (1e6 * .00316434) * 3.0637133 = .00806378, its root .0897985.
  EXPECT_NEAR(*LowerConfidenceSequence(Moments(1000, 0.3, 0.25), 0.05), 0.3 - 0.5 * 0.0897985,
              1e-6);
}

TEST(LowerConfidenceSequenceTest, NeedsItsBurnIn) {
  EXPECT_FALSE(LowerConfidenceSequence(Moments(99, 1, 1), 0.05).has_value());
  EXPECT_TRUE(LowerConfidenceSequence(Moments(100, 1, 1), 0.05).has_value());
}

TEST(LowerConfidenceSequenceTest, IsTighterWithMoreAndWithLessConfidence) {
  const double at_1000 = *LowerConfidenceSequence(Moments(1000, 0.3, 1), 0.05);
  EXPECT_GT(*LowerConfidenceSequence(Moments(4000, 0.3, 1), 0.05), at_1000);
  EXPECT_LT(*LowerConfidenceSequence(Moments(1000, 0.3, 1), 0.01), at_1000);
  EXPECT_EQ(*LowerConfidenceSequence(Moments(1000, 0.3, 0), 0.01), 0.3);
}

TEST(UpperConfidenceSequenceTest, IsTheLowerOneOfTheNegatives) {
  for (const std::int64_t count : {100, 1000, 100000}) {
    const RunningMoments values = Moments(count, -0.2, 0.5);
    RunningMoments negatives = values;
    negatives.mean = -values.mean;
    EXPECT_EQ(*UpperConfidenceSequence(values, 0.05), -*LowerConfidenceSequence(negatives, 0.05));
  }
  EXPECT_FALSE(UpperConfidenceSequence(Moments(99, 0, 1), 0.05).has_value());
}

TEST(TestProjectionsTest, IsASumOverItsStandardDeviation) {
  const auto test = TestProjections(Moments(100, 0.1, 1), 25);
  EXPECT_NEAR(*test->z, 2, 1e-15);
  EXPECT_NEAR(test->p_value, 0.022750131948179195, 1e-15);
  EXPECT_EQ(test->standard_deviation, 5);
}

TEST(TestProjectionsTest, WithoutVarianceTheSignDecides) {
  EXPECT_FALSE(TestProjections({}, 0).has_value());
  EXPECT_EQ(TestProjections(Moments(10, 0, 0), 0)->p_value, 1);
  EXPECT_EQ(TestProjections(Moments(10, 0.5, 0), 0)->p_value, 0);
  EXPECT_FALSE(TestProjections(Moments(10, 0.5, 0), 0)->z.has_value());
}

}  // namespace
}  // namespace calibd
