#include "calibd/core/confidence_sequence.h"

#include <gtest/gtest.h>

#include <cmath>

namespace calibd {
namespace {

RunningMoments Moments(std::int64_t count, double mean, double variance) {
  return {.count = count, .mean = mean, .m2 = variance * static_cast<double>(count - 1)};
}

// The sum of the header's formula at U_t, with psi as a series.
double Wealth(const RunningMoments& values, double bound, double upper) {
  const auto t = static_cast<double>(values.count);
  const double squares = values.m2 + t * values.mean * values.mean;
  double sum = 0;
  for (int j = 0; j < 32; ++j) {
    const double rate = std::ldexp(0.75, -j);
    double psi = 0;
    for (int power = 200; power >= 2; --power) psi += std::pow(rate, power) / power;
    sum += std::exp(rate * t * (upper - values.mean) / bound - psi * squares / (bound * bound)) /
           ((j + 1) * (j + 2));
  }
  return sum;
}

TEST(UpperConfidenceSequenceTest, SolvesItsEquation) {
  for (const std::int64_t count : {30, 1000, 1000000000}) {
    for (const double variance : {0.0, 1e-6, 0.3}) {
      const RunningMoments values = Moments(count, -0.2, variance);
      const double upper = *UpperConfidenceSequence(values, 2, 0.05);
      EXPECT_NEAR(Wealth(values, 2, upper), 20, 1e-5) << count << " " << variance;
    }
  }
}

TEST(UpperConfidenceSequenceTest, WithNothingButZerosNeedsSomeValuesToSayMuch) {
  // 1/2 e^x <= 1/alpha at x = 3/4 t U / b, and 31/32 more of the weight is at smaller rates.
  const double upper = *UpperConfidenceSequence(Moments(1000, 0, 0), 2, 0.05);
  EXPECT_LT(upper, 2 * std::log(2 / 0.05) / (0.75 * 1000));
  EXPECT_GT(upper, 2 * std::log(1 / 0.05) / (0.75 * 1000));
}

TEST(UpperConfidenceSequenceTest, NeverExceedsWhatValuesCanBe) {
  EXPECT_FALSE(UpperConfidenceSequence({}, 2, 0.05).has_value());
  EXPECT_EQ(UpperConfidenceSequence(Moments(1, 0, 0), 2, 0.05), 2);
  EXPECT_EQ(LowerConfidenceSequence(Moments(1, 0, 0), 2, 0.05), -2);
  EXPECT_FALSE(LowerConfidenceSequence({}, 2, 0.05).has_value());
}

TEST(UpperConfidenceSequenceTest, IsTighterWithMoreAndWithLessConfidence) {
  const double at_1000 = *UpperConfidenceSequence(Moments(1000, 0.3, 1), 2, 0.05);
  EXPECT_LT(*UpperConfidenceSequence(Moments(4000, 0.3, 1), 2, 0.05), at_1000);
  EXPECT_GT(*UpperConfidenceSequence(Moments(1000, 0.3, 1), 2, 0.01), at_1000);
  EXPECT_LT(*UpperConfidenceSequence(Moments(1000, 0.3, 0.5), 2, 0.05), at_1000);
  EXPECT_GT(*UpperConfidenceSequence(Moments(1000, 0.3, 1), 3, 0.05), at_1000);
}

TEST(LowerConfidenceSequenceTest, IsTheUpperOneOfTheNegatives) {
  for (const std::int64_t count : {100, 1000, 100000}) {
    const RunningMoments values = Moments(count, -0.2, 0.5);
    RunningMoments negatives = values;
    negatives.mean = -values.mean;
    EXPECT_EQ(*LowerConfidenceSequence(values, 2, 0.05),
              -*UpperConfidenceSequence(negatives, 2, 0.05));
  }
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
