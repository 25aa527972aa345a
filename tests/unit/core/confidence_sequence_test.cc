#include "calibd/core/confidence_sequence.h"

#include <gtest/gtest.h>

#include <cmath>
#include <cstdint>
#include <numbers>

namespace calibd {
namespace {

RunningMoments MomentsOf(std::int64_t count, double mean, double variance) {
  return {.count = count, .mean = mean, .m2 = variance * static_cast<double>(count - 1)};
}

// sum_j w_j exp(l_j x - psi(l_j) squares).
template <typename Psi>
double MixtureAt(double x, double squares, double largest_rate, const Psi& psi) {
  double sum = 0;
  for (int j = 0; j < 32; ++j) {
    const double rate = std::ldexp(largest_rate, -j);
    sum += std::exp(rate * x - psi(rate) * squares) / ((j + 1) * (j + 2));
  }
  return sum;
}

// The sum in the header's formula at U_t, with psi as a series.
double Wealth(const RunningMoments& values, double bound, double upper) {
  const auto t = static_cast<double>(values.count);
  const double squares = values.m2 + t * values.mean * values.mean;
  return MixtureAt(t * (upper - values.mean) / bound, squares / (bound * bound), 0.75,
                   [](double rate) {
                     double psi = 0;
                     for (int power = 200; power >= 2; --power) {
                       psi += std::pow(rate, power) / power;
                     }
                     return psi;
                   });
}

TEST(UpperConfidenceSequenceTest, SolvesItsEquation) {
  for (const std::int64_t count : {30, 1000, 1000000000}) {
    for (const double variance : {0.0, 1e-6, 0.3}) {
      const RunningMoments values = MomentsOf(count, -0.2, variance);
      const double upper = *UpperConfidenceSequence(values, 2, 0.05);
      EXPECT_NEAR(Wealth(values, 2, upper), 20, 1e-5) << count << " " << variance;
    }
  }
}

TEST(UpperConfidenceSequenceTest, WithOnlyZerosNeedsManyValuesToBeTight) {
  // 1/2 e^x <= 1/alpha at x = 3/4 t U / b, and 31/32 more of the weight is at smaller rates.
  const double upper = *UpperConfidenceSequence(MomentsOf(1000, 0, 0), 2, 0.05);
  EXPECT_LT(upper, 2 * std::log(2 / 0.05) / (0.75 * 1000));
  EXPECT_GT(upper, 2 * std::log(1 / 0.05) / (0.75 * 1000));
}

TEST(UpperConfidenceSequenceTest, NeverExceedsTheBoundOfTheValues) {
  EXPECT_FALSE(UpperConfidenceSequence({}, 2, 0.05).has_value());
  EXPECT_EQ(UpperConfidenceSequence(MomentsOf(1, 0, 0), 2, 0.05), 2);
  EXPECT_EQ(LowerConfidenceSequence(MomentsOf(1, 0, 0), 2, 0.05), -2);
  EXPECT_FALSE(LowerConfidenceSequence({}, 2, 0.05).has_value());
}

TEST(UpperConfidenceSequenceTest, IsTighterWithMoreDataAndWithLessConfidence) {
  const double at_1000 = *UpperConfidenceSequence(MomentsOf(1000, 0.3, 1), 2, 0.05);
  EXPECT_LT(*UpperConfidenceSequence(MomentsOf(4000, 0.3, 1), 2, 0.05), at_1000);
  EXPECT_GT(*UpperConfidenceSequence(MomentsOf(1000, 0.3, 1), 2, 0.01), at_1000);
  EXPECT_LT(*UpperConfidenceSequence(MomentsOf(1000, 0.3, 0.5), 2, 0.05), at_1000);
  EXPECT_GT(*UpperConfidenceSequence(MomentsOf(1000, 0.3, 1), 3, 0.05), at_1000);
}

TEST(LowerConfidenceSequenceTest, IsTheUpperOneOfTheNegatives) {
  for (const std::int64_t count : {100, 1000, 100000}) {
    const RunningMoments values = MomentsOf(count, -0.2, 0.5);
    RunningMoments negatives = values;
    negatives.mean = -values.mean;
    EXPECT_EQ(*LowerConfidenceSequence(values, 2, 0.05),
              -*UpperConfidenceSequence(negatives, 2, 0.05));
  }
}

TEST(KceUpperConfidenceSequenceTest, SolvesItsEquation) {
  for (const std::int64_t count : {300, 10000, 1000000000}) {
    const auto t = static_cast<double>(count);
    for (const double mean_square : {0.0, 1e-6, 0.3, 2.0}) {
      const WitnessNorm sum = {
          .count = count, .norm2 = 0.01 * t * t, .square_sum = mean_square * t};
      const double upper = *KceUpperConfidenceSequence(sum, 0.05);
      if (upper == std::numbers::sqrt2) continue;
      // Squares of values of at most 2 are at most twice the values.
      const RunningMoments squares = {
          .count = count, .mean = mean_square, .m2 = (2 - mean_square) * mean_square * t};
      const double most = *UpperConfidenceSequence(squares, 2, 0.005);
      const double x = (upper - 0.1) * t / std::sqrt(8);
      // e^l - 1 - l as a series.
      const double at = MixtureAt(x, t * most / 8, 3, [](double rate) {
        double psi = 0;
        double term = rate;
        for (int power = 2; power < 40; ++power) psi += term *= rate / power;
        return psi;
      });
      EXPECT_NEAR(at * 0.045 / 2, 1, 1e-5) << count << " " << mean_square;
    }
  }
}

TEST(KceUpperConfidenceSequenceTest, IsAtMostTheMaximumOfKceAndShrinksWithMoreObservations) {
  EXPECT_FALSE(KceUpperConfidenceSequence({}, 0.05).has_value());
  EXPECT_EQ(*KceUpperConfidenceSequence({.count = 1, .norm2 = 1, .square_sum = 1}, 0.05),
            std::numbers::sqrt2);
  const auto at = [](double t, double alpha) {
    return *KceUpperConfidenceSequence(
        {.count = static_cast<std::int64_t>(t), .norm2 = 0.3 * t, .square_sum = 0.3 * t}, alpha);
  };
  EXPECT_LT(at(4000, 0.05), at(1000, 0.05));
  EXPECT_LT(at(1000, 0.05), at(1000, 0.01));
  // Decreases like 1 / sqrt(t), except for log log t: for sums of calibrated models, and for sqrt(2
  // log(..) s).
  EXPECT_NEAR(at(1e8, 0.05) / at(1e6, 0.05), 0.1, 0.01);
  EXPECT_LT(at(1e8, 0.05), 6 * std::sqrt(0.3 / 1e8));
}

TEST(TestProjectionsTest, IsASumDividedByItsStandardDeviation) {
  const auto test = TestProjections(MomentsOf(100, 0.1, 1), 25);
  EXPECT_NEAR(test->z, 2, 1e-15);
  EXPECT_NEAR(test->p_value, 0.022750131948179195, 1e-15);
  EXPECT_EQ(test->standard_deviation, 5);
}

TEST(TestProjectionsTest, IsUnsetWithoutVariance) {
  EXPECT_FALSE(TestProjections({}, 0).has_value());
  EXPECT_FALSE(TestProjections(MomentsOf(10, 0.5, 0), 0).has_value());
}

}  // namespace
}  // namespace calibd
