#include "calibd/core/individual_calibration.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <random>
#include <string>
#include <vector>

namespace calibd {
namespace {

using ::testing::HasSubstr;

// Binary predictions .5 of labels whose probability depends on the first feature; the second does
// not matter.
struct Cases {
  Cases(std::size_t n, double effect, std::uint64_t seed) {
    std::mt19937_64 rng(seed);
    std::normal_distribution<double> normal;
    std::uniform_real_distribution<double> uniform;
    for (std::size_t i = 0; i < n; ++i) {
      const double feature = normal(rng);
      probabilities.insert(probabilities.end(), {0.5, 0.5});
      labels.push_back(uniform(rng) < 0.5 + (feature > 0 ? effect : -effect) ? 1 : 0);
      features.insert(features.end(), {feature, 1000 * normal(rng)});
    }
  }
  [[nodiscard]] PredictionBatch batch() const { return {probabilities, labels, 2}; }
  [[nodiscard]] absl::StatusOr<IndividualTestResult> Tested(std::uint64_t seed = 1) const {
    return TestIndividual(batch(), features, 2,
                          {.replicates = 99, .seed = seed, .null = NullHypothesis::kForm});
  }

  std::vector<double> probabilities;
  std::vector<std::int32_t> labels;
  std::vector<double> features;
};

TEST(IndividualTest, EqualsTheDefinition) {
  Cases cases(60, 0.3, 1);
  for (std::size_t i = 0; i < 60; ++i) {
    cases.probabilities[2 * i] = 0.2 + 0.01 * static_cast<double>(i);
    cases.probabilities[2 * i + 1] = 1 - cases.probabilities[2 * i];
  }
  const auto result = cases.Tested();
  ASSERT_TRUE(result.ok()) << result.status();
  double deviations[2];
  for (std::size_t k = 0; k < 2; ++k) {
    double mean = 0;
    double squares = 0;
    for (std::size_t i = 0; i < 60; ++i) mean += cases.features[2 * i + k] / 60;
    for (std::size_t i = 0; i < 60; ++i) squares += std::pow(cases.features[2 * i + k] - mean, 2);
    deviations[k] = std::sqrt(squares / 60);
  }
  double off = 0;
  double diagonal = 0;
  for (std::size_t i = 0; i < 60; ++i) {
    for (std::size_t j = 0; j < 60; ++j) {
      double distance = 0;
      double product = 0;
      for (std::size_t k = 0; k < 2; ++k) {
        const double step = (cases.features[2 * i + k] - cases.features[2 * j + k]) / deviations[k];
        distance += step * step;
        const auto residual = [&](std::size_t row) {
          return (cases.labels[row] == static_cast<std::int32_t>(k) ? 1 : 0) -
                 cases.probabilities[2 * row + k];
        };
        product += residual(i) * residual(j);
      }
      (i == j ? diagonal : off) += product * std::exp(-result->gamma * distance);
    }
  }
  EXPECT_NEAR(result->mmd_squared, off / 60 / 59, 1e-12);
  EXPECT_NEAR(result->biased_mmd_squared, (off + diagonal) / 60 / 60, 1e-12);
  // 64 frequencies approximate the kernel of a pair to about 1/8.
  EXPECT_NEAR(result->statistic, result->mmd_squared, 0.01);
  // Unbiased: the replicates are 0 on average, within four standard errors.
  EXPECT_NEAR(result->replicate_mean, 0, 4 * result->replicate_standard_deviation / std::sqrt(99));
  EXPECT_EQ(result->null, NullHypothesis::kForecast);
}

TEST(IndividualTest, FindsErrorsThatCancelOverAllCases) {
  EXPECT_EQ(Cases(1000, 0.15, 2).Tested()->p_value, 0.01);
  // P(p <= .05) of calibrated predictions; 400 runs, four standard errors. The labels have few
  // values, so the p-values may be too large.
  int rejected = 0;
  for (std::uint64_t run = 0; run < 400; ++run) {
    rejected += Cases(30, 0, 100 + run).Tested(run)->p_value <= 0.05 ? 1 : 0;
  }
  EXPECT_LE(rejected, 20 + 4 * std::sqrt(400 * 0.05 * 0.95));
  EXPECT_GE(rejected, 5);
}

TEST(IndividualTest, InvalidInputIsNamed) {
  const auto message = [](const Cases& cases) {
    return std::string(cases.Tested().status().message());
  };
  Cases cases(20, 0, 3);
  cases.features[5] = std::nan("");
  EXPECT_THAT(message(cases), HasSubstr("features[2][1] is nan, expected a finite number"));
  cases = Cases(20, 0, 3);
  cases.features.pop_back();
  EXPECT_THAT(message(cases), HasSubstr("features has 39 values, expected 40"));
  cases.features.assign(40, 7.0);
  EXPECT_THAT(message(cases), HasSubstr("each has the same value in all rows"));
  EXPECT_THAT(message(Cases(1, 0, 3)), HasSubstr("not enough data"));
}

}  // namespace
}  // namespace calibd
