#include "calibd/core/generator.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>

#include "calibd/core/kernel.h"
#include "calibd/core/validation.h"
#include "support/draw.h"

namespace calibd {
namespace {

using ::testing::HasSubstr;

TEST(GeneratorTest, DrawsValidPredictionsEvenWithTinyConcentrations) {
  for (const double alpha : {1e-6, 1e-3, 0.1, 1.0, 50.0}) {
    const PredictionSet set = Draw(
        GeneratorSpec{std::vector<double>(5, alpha), 0.5, std::vector<double>(5, 0.2)}, 1000, 1);
    EXPECT_TRUE(ValidateBatch(set.view(), 1e-12).ok()) << alpha;
  }
}

TEST(GeneratorTest, DoesNotDependOnTheCalls) {
  const PredictionSet whole = Draw(GeneratorSpec::M2(), 100, 3);
  PredictionSet parts;
  auto generator = Generator::Create(GeneratorSpec::M2(), 3);
  generator->Draw(1, parts);
  generator->Draw(60, parts);
  generator->Draw(39, parts);
  EXPECT_EQ(whole.probabilities, parts.probabilities);
  EXPECT_EQ(whole.labels, parts.labels);
  EXPECT_NE(whole.labels, Draw(GeneratorSpec::M2(), 100, 4).labels);
}

// Means and variances of Dirichlet marginals: a_k / a_0 and a_k (a_0 - a_k) /
// (a_0^2 (a_0 + 1)); bounds of five standard errors.
TEST(GeneratorTest, HasTheMomentsOfTheDirichlet) {
  const std::vector<double> alpha = {0.1, 0.5, 3};
  constexpr std::size_t kN = 200000;
  const PredictionSet set = Draw(GeneratorSpec{alpha, 0, {1, 0, 0}}, kN, 17);
  const double a0 = 3.6;
  for (std::size_t k = 0; k < 3; ++k) {
    double mean = 0;
    double square = 0;
    double fourth = 0;
    const double expected = alpha[k] / a0;
    for (std::size_t i = 0; i < kN; ++i) {
      const double x = set.probabilities[3 * i + k];
      mean += x / kN;
      square += (x - expected) * (x - expected) / kN;
      fourth += std::pow(x - expected, 4) / kN;
    }
    const double variance = alpha[k] * (a0 - alpha[k]) / (a0 * a0 * (a0 + 1));
    EXPECT_NEAR(mean, expected, 5 * std::sqrt(variance / kN));
    EXPECT_NEAR(square, variance, 5 * std::sqrt((fourth - variance * variance) / kN));
  }
}

// Mean total variation of two predictions with alpha = (.1) x 10 is .827401 (App.
// J.2.2); the standard error of the mean over disjoint pairs is measured.
TEST(GeneratorTest, HasTheClosedFormMeanTotalVariation) {
  constexpr std::size_t kPairs = 100000;
  const PredictionSet set = Draw(GeneratorSpec::M1(), 2 * kPairs, 23);
  double mean = 0;
  double square = 0;
  for (std::size_t i = 0; i < kPairs; ++i) {
    const double d =
        DistanceOf(Distance::kTotalVariation, set.view().row(2 * i), set.view().row(2 * i + 1));
    mean += d / kPairs;
    square += d * d / kPairs;
  }
  EXPECT_NEAR(mean, 0.827401, 5 * std::sqrt((square - mean * mean) / kPairs));
}

TEST(GeneratorTest, LabelsFollowTheModel) {
  constexpr std::size_t kN = 100000;
  // Under M1 the labels are drawn from the predictions: sum of [y = 0] - g_0 has mean 0
  // and variance at most n/4.
  double excess = 0;
  const PredictionSet m1 = Draw(GeneratorSpec::M1(), kN, 5);
  for (std::size_t i = 0; i < kN; ++i) {
    excess += (m1.labels[i] == 0 ? 1 : 0) - m1.probabilities[10 * i];
  }
  EXPECT_LT(std::abs(excess), 5 * std::sqrt(kN / 4.0));
  // Class 0 has probability .5 + .5 / 10 under M2, and 1 / 10 under M3.
  for (const auto& [spec, share] :
       {std::pair{GeneratorSpec::M2(), 0.55}, std::pair{GeneratorSpec::M3(), 0.1}}) {
    const PredictionSet set = Draw(spec, kN, 6);
    const auto zeros = static_cast<double>(std::count(set.labels.begin(), set.labels.end(), 0));
    EXPECT_NEAR(zeros, share * kN, 5 * std::sqrt(kN * share * (1 - share)));
  }
}

TEST(GeneratorTest, ErrorsNameTheInvalidFieldOfASpec) {
  const auto error = [](GeneratorSpec spec) {
    return std::string(Generator::Create(std::move(spec), 0).status().message());
  };
  EXPECT_THAT(error({{1}, 0, {1}}), HasSubstr("alpha has 1 values"));
  EXPECT_THAT(error({{1, 0}, 0, {1, 0}}), HasSubstr("alpha[1] is 0"));
  EXPECT_THAT(error({{1, 1}, 1.5, {1, 0}}), HasSubstr("pi is 1.5"));
  EXPECT_THAT(error({{1, 1}, 0, {1}}), HasSubstr("beta has 1 values, expected 2"));
  EXPECT_THAT(error({{1, 1}, 0, {0.5, 0.6}}), HasSubstr("beta sums to 1.1"));
  EXPECT_THAT(error({{1, 1}, 0, {-0.5, 1.5}}), HasSubstr("beta[0] is -0.5"));
}

}  // namespace
}  // namespace calibd
