#include "calibd/core/generator_closed_forms.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <limits>
#include <string>
#include <vector>

#include "calibd/core/kernel.h"

namespace calibd {
namespace {

using ::testing::HasSubstr;

TEST(GeneratorClosedFormsTest, MatchTheKnownErrors) {
  EXPECT_EQ(*ExpectedCalibrationError(GeneratorSpec::M1()), 0);
  EXPECT_NEAR(*ExpectedCalibrationError(GeneratorSpec::M2()), 0.9 * 0.5, 1e-14);
  EXPECT_NEAR(*ExpectedCalibrationError(GeneratorSpec::M3()), 0.710642, 5e-7);
  GeneratorSpec spec = GeneratorSpec::M3();
  spec.pi = 0.25;
  EXPECT_NEAR(*ExpectedCalibrationError(spec), 0.25 * 0.710642, 2e-7);
  // Uniform g_0 and beta = (1/2, 1/2): E |g_0 - 1/2| = 1/4.
  EXPECT_NEAR(*ExpectedCalibrationError({{1, 1}, 1, {0.5, 0.5}}), 0.25, 1e-15);
}

TEST(GeneratorClosedFormsTest, MatchTheKnownDistances) {
  EXPECT_NEAR(*MeanTotalVariation(std::vector<double>(10, 0.1)), 0.827401, 5e-7);
  // Two uniform variables have a mean distance of 1/3.
  EXPECT_NEAR(*MeanTotalVariation(std::vector<double>{1, 1}), 1.0 / 3, 1e-14);
  // Beta(1/2, 1/2), the arcsine law: 4 / pi^2.
  EXPECT_NEAR(*MeanTotalVariation(std::vector<double>{0.5, 0.5}), 4 / (M_PI * M_PI), 1e-14);
}

TEST(GeneratorClosedFormsTest, MatchSimulation) {
  constexpr std::size_t kN = 200000;
  const std::vector<GeneratorSpec> specs = {GeneratorSpec::M3(),
                                            {{0.3, 2, 5}, 0.7, {0.2, 0.2, 0.6}},
                                            {{20, 1, 0.05, 4}, 1, {0, 0.5, 0.5, 0}}};
  for (const GeneratorSpec& spec : specs) {
    PredictionSet set;
    Generator::Create(spec, 41)->Draw(kN, set);
    double error = 0;
    double distance = 0;
    for (std::size_t i = 0; i < kN; ++i) {
      // Given g, the labels have the distribution (1 - pi) g + pi beta.
      error += spec.pi * DistanceOf(Distance::kTotalVariation, set.view().row(i), spec.beta) / kN;
      if (i % 2 == 1) {
        distance +=
            DistanceOf(Distance::kTotalVariation, set.view().row(i - 1), set.view().row(i)) /
            (kN / 2);
      }
    }
    // Values in [0, 1] have a standard deviation of at most 1/2; five standard errors of n/2
    // values.
    const double margin = 5 * 0.5 / std::sqrt(kN / 2.0);
    EXPECT_NEAR(*ExpectedCalibrationError(spec), error, margin);
    EXPECT_NEAR(*MeanTotalVariation(spec.alpha), distance, margin);
  }
}

TEST(GeneratorClosedFormsTest, StayFiniteAndInRange) {
  const std::vector<std::vector<double>> extremes = {{1e-320, 1e-320},
                                                     {1e-300, 1},
                                                     {1e7, 1e-12},
                                                     {1e8 / 2, 1e8 / 2},
                                                     std::vector<double>(100000, 0.1),
                                                     std::vector<double>(100000, 1e-5)};
  for (const std::vector<double>& alpha : extremes) {
    const double distance = *MeanTotalVariation(alpha);
    EXPECT_GE(distance, 0);
    EXPECT_LE(distance, 1 + 1e-6);
    GeneratorSpec spec = GeneratorSpec::M2(alpha.size());
    spec.alpha = alpha;
    const double error = *ExpectedCalibrationError(spec);
    EXPECT_GE(error, -1e-12);
    EXPECT_LE(error, spec.pi + 1e-12);
  }
}

TEST(GeneratorClosedFormsTest, ErrorsNameTheInvalidValue) {
  const auto distance = [](const std::vector<double>& alpha) {
    return std::string(MeanTotalVariation(alpha).status().message());
  };
  EXPECT_THAT(distance({1}), HasSubstr("alpha has 1 values"));
  EXPECT_THAT(distance({1, 0}), HasSubstr("alpha[1] is 0"));
  EXPECT_THAT(distance({1, std::nan("")}), HasSubstr("alpha[1] is nan"));
  EXPECT_THAT(distance({1e8, 1}), HasSubstr("expected at most 1e+08"));
  EXPECT_THAT(distance({1e308, 1e308}), HasSubstr("alpha sums to inf"));
  EXPECT_FALSE(ExpectedCalibrationError({{1, 1}, 2, {1, 0}}).ok());
}

}  // namespace
}  // namespace calibd
