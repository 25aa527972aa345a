#include "calibd/core/cme.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <string>

#include "calibd/core/generator.h"
#include "support/draw.h"
#include "support/test_data.h"

namespace calibd {
namespace {

using ::testing::HasSubstr;
using testing::RelativeDifference;

absl::StatusOr<CmeTestResult> TestAt(const PredictionSet& set, const Kernel& kernel,
                                     const PredictionSet& locations,
                                     const RunControl& control = {}) {
  return CmeTest(set.view(), kernel, locations.view(), {.replicates = 99, .seed = 3}, control);
}

TEST(CmeTestTest, MatchesTheSmallCases) {
  int tested = 0;
  for (const auto& small : testing::SmallCases()) {
    if (!small.contains("cme")) continue;
    SCOPED_TRACE(small.at("name").get<std::string>());
    const auto& expected = small.at("cme");
    const PredictionSet set = testing::ToPredictionSet(small);
    const PredictionSet locations = testing::ToPredictionSet(
        {{"m", small.at("m")}, {"y0", expected.at("ty0")}, {"P", expected.at("TP")}});
    const Kernel kernel = *Kernel::ExponentialTotalVariation(small.at("nu_used"));
    const auto result = TestAt(set, kernel, locations);
    ++tested;
    if (expected.at("cov_cond").is_string()) {
      // The reference has no inverse.
      if (result.ok()) {
        EXPECT_LT(result->directions, result->test_locations);
      }
      continue;
    }
    ASSERT_TRUE(result.ok()) << result.status();
    // The reference's own rounding error grows with the condition number.
    const double tolerance = 1e-12 * std::max(1.0, result->condition);
    EXPECT_LE(RelativeDifference(result->ucme, expected.at("UCME")), 1e-12);
    EXPECT_LE(RelativeDifference(result->condition, expected.at("cov_cond")), tolerance);
    EXPECT_LE(RelativeDifference(result->statistic, expected.at("statistic")), tolerance);
  }
  EXPECT_EQ(tested, 6);
}

TEST(CmeTestTest, IsTheSquaredTStatisticAtOneLocation) {
  const PredictionSet set = Draw(GeneratorSpec::M1(3), 40, 21);
  const auto locations = DrawTestLocations(1, 3, 5);
  const Kernel kernel = *Kernel::ExponentialTotalVariation(0.5);
  const auto result = TestAt(set, kernel, *locations);
  const auto label = static_cast<std::size_t>(locations->labels[0]);
  double sum = 0;
  double squares = 0;
  for (std::size_t i = 0; i < 40; ++i) {
    const double deviation =
        kernel(set.view().row(i), locations->view().row(0)) *
        ((set.labels[i] == locations->labels[0] ? 1 : 0) - set.view().row(i)[label]);
    sum += deviation;
    squares += deviation * deviation;
  }
  const double t_squared = sum * sum / 40 / ((squares - sum * sum / 40) / 39);
  EXPECT_NEAR(result->statistic, t_squared, 1e-12 * t_squared);
  EXPECT_EQ(result->p_value, (1.0 + result->simulation.exceedances) / 100);
  EXPECT_EQ(result->condition, 1);
  EXPECT_EQ(result->test_locations, 1u);
  EXPECT_EQ(result->n, 40u);
}

TEST(CmeTestTest, LeavesOutTheDirectionsOfASingularCovariance) {
  const Kernel kernel = *Kernel::ExponentialTotalVariation(0.5);
  // Two locations are equal and have equal labels.
  PredictionSet locations = *DrawTestLocations(1, 3, 5);
  locations.probabilities.insert(locations.probabilities.end(), locations.probabilities.begin(),
                                 locations.probabilities.begin() + 3);
  locations.labels.push_back(locations.labels[0]);
  const PredictionSet set = Draw(GeneratorSpec::M1(3), 40, 21);
  // Then one location is enough.
  const auto one = TestAt(set, kernel, *DrawTestLocations(1, 3, 5));
  const auto equal = TestAt(set, kernel, locations);
  ASSERT_TRUE(equal.ok()) << equal.status();
  EXPECT_EQ(equal->directions, 1);
  EXPECT_EQ(equal->condition, 1);
  EXPECT_NEAR(equal->statistic, one->statistic, 1e-9 * one->statistic);
  EXPECT_EQ(equal->p_value, one->p_value);
  // Nearly equal locations: the condition number is some 1e8.
  locations.probabilities[3] += 1e-4;
  locations.probabilities[4] -= 1e-4;
  EXPECT_NEAR(TestAt(set, kernel, locations)->statistic, one->statistic, 1e-2 * one->statistic);
  // Certain and right predictions never deviate.
  const PredictionSet certain{{1, 0, 0, 1, 1, 0}, {0, 1, 0}, 2};
  EXPECT_EQ(TestAt(certain, kernel, *DrawTestLocations(2, 2, 5)).status().code(),
            absl::StatusCode::kFailedPrecondition);
}

// Labels that are drawn from certain rows have no deviation.
TEST(CmeTestTest, RejectsCertainRowsThatAreOftenWrong) {
  PredictionSet set{.probabilities = {}, .labels = {}, .class_count = 3};
  for (int i = 0; i < 200; ++i) {
    for (int k = 0; k < 3; ++k) set.probabilities.push_back(k == i % 3 ? 1 : 0);
    set.labels.push_back((i % 5 == 0 ? i + 1 : i) % 3);
  }
  const auto locations = DrawTestLocations(4, 3, 5);
  const Kernel kernel = *Kernel::ExponentialTotalVariation(0.5);
  const auto wrong = TestAt(set, kernel, *locations);
  ASSERT_TRUE(wrong.ok()) << wrong.status();
  EXPECT_DOUBLE_EQ(wrong->p_value, 0.01);
  for (int i = 0; i < 200; ++i) set.labels[static_cast<std::size_t>(i)] = i % 3;
  EXPECT_TRUE(absl::IsFailedPrecondition(TestAt(set, kernel, *locations).status()));
}

TEST(CmeTestTest, CanBeCancelled) {
  RunControl control;
  control.cancelled = [] { return true; };
  EXPECT_EQ(TestAt(Draw(GeneratorSpec::M1(3), 40, 21), *Kernel::ExponentialTotalVariation(0.5),
                   *DrawTestLocations(2, 3, 5), control)
                .status()
                .code(),
            absl::StatusCode::kCancelled);
}

TEST(CmeTestTest, ErrorsNameTheInvalidValue) {
  const Kernel kernel = *Kernel::ExponentialTotalVariation(0.5);
  const auto message = [&](const PredictionSet& set, const PredictionSet& locations) {
    return std::string(TestAt(set, kernel, locations).status().message());
  };
  EXPECT_THAT(message(Draw(GeneratorSpec::M1(3), 10, 21), *DrawTestLocations(10, 3, 5)),
              HasSubstr("has 10 observations, needs at least 11 for 10 test locations"));
  EXPECT_THAT(message(Draw(GeneratorSpec::M1(3), 10, 21), {{}, {}, 3}),
              HasSubstr("test_locations has 0, expected 1..256"));
  EXPECT_THAT(message(Draw(GeneratorSpec::M1(3), 10, 21), *DrawTestLocations(2, 4, 5)),
              HasSubstr("test_locations has 4 classes, expected 3"));
  EXPECT_FALSE(DrawTestLocations(257, 3, 5).ok());
  EXPECT_FALSE(DrawTestLocations(1, 1, 5).ok());
}

TEST(CmeTestTest, TakesManyClassesWithFewObservations) {
  const PredictionSet set = Draw(GeneratorSpec::M1(1000), 3, 21);
  const auto result =
      TestAt(set, *Kernel::ExponentialTotalVariation(0.5), *DrawTestLocations(1, 1000, 5));
  if (result.ok()) {
    EXPECT_TRUE(std::isfinite(result->statistic));
    EXPECT_GE(result->p_value, 0);
  }
}

}  // namespace
}  // namespace calibd
