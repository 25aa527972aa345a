#include "calibd/core/local_calibration.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <atomic>
#include <cmath>
#include <random>
#include <thread>
#include <vector>

#include "calibd/core/forecast_metrics.h"

namespace calibd {
namespace {

using ::testing::HasSubstr;

// n rows with one feature N(0, 1) and a uniform transform, except that transforms with a feature
// above `from` are in [0, 1/2].
struct LocalRows {
  LocalRows(std::size_t n, std::uint64_t seed, double from = 1e9) {
    std::mt19937_64 rng(seed);
    std::normal_distribution<double> normal;
    std::uniform_real_distribution<double> uniform;
    condition.gamma = 2;
    for (std::size_t i = 0; i < n; ++i) {
      condition.values.push_back(normal(rng));
      const double u = uniform(rng);
      pit.push_back(condition.values.back() > from ? u / 2 : u);
    }
  }

  [[nodiscard]] LocalCalibration Tested(std::int32_t replicates = 99,
                                        const RunControl& control = {}) const {
    const auto result = TestLocalCalibration(
        pit, condition, {.replicates = replicates, .seed = 7, .null = NullHypothesis::kForecast},
        control);
    EXPECT_TRUE(result.ok()) << result.status();
    return *result;
  }

  std::vector<double> pit;
  FeatureCondition condition;
};

TEST(LocalCalibrationTest, EachErrorIsThatOfTheDefinition) {
  const LocalRows rows(250, 1, 0.5);
  const LocalCalibration result = rows.Tested();
  EXPECT_EQ(result.place_count, 100U);
  ASSERT_EQ(result.worst.size(), kMostLocalPlaces);
  double mean = 0;
  for (std::size_t p = 0; p < 100; ++p) {
    const double x = rows.condition.values[(2 * p + 1) * 250 / 200];
    mean += *LocalCalibrationError(rows.pit, rows.condition.values, std::vector{x}, 2) / 100;
  }
  // The weights are in single precision.
  EXPECT_NEAR(result.mean_error.value, mean, 1e-6 * mean);
  const LocalPlace& worst = result.worst.front();
  const double x = rows.condition.values[worst.row];
  double weights = 0;
  double squares = 0;
  double below = 0;
  double inside_50 = 0;
  double inside_90 = 0;
  for (std::size_t i = 0; i < 250; ++i) {
    const double weight = std::exp(-2 * std::pow(rows.condition.values[i] - x, 2));
    const double u = rows.pit[i];
    weights += weight;
    squares += weight * weight;
    if (u <= 0.5) below += weight;
    if (u > 0.25 && u <= 0.75) inside_50 += weight;
    if (u > 0.05 && u <= 0.95) inside_90 += weight;
  }
  EXPECT_NEAR(worst.effective_rows, weights * weights / squares, 1e-4);
  EXPECT_NEAR(worst.below_median, below / weights, 1e-6);
  EXPECT_NEAR(worst.inside_50, inside_50 / weights, 1e-6);
  EXPECT_NEAR(worst.inside_90, inside_90 / weights, 1e-6);
  EXPECT_NEAR(worst.error,
              *LocalCalibrationError(rows.pit, rows.condition.values, std::vector{x}, 2), 1e-6);
  // The error is where it was put.
  EXPECT_GT(x, 0.5);
  EXPECT_EQ(worst.p_value, 0.01);
}

TEST(LocalCalibrationTest, ExpectedErrorsAreThoseOfUniformTransforms) {
  const LocalRows rows(80, 2);
  const LocalCalibration result = rows.Tested(20000);
  // Equal distances reach each of 80 rows once, so the mean over the places is known.
  ASSERT_EQ(result.place_count, 80U);
  double expected = 0;
  for (std::size_t p = 0; p < 80; ++p) {
    double weights = 0;
    double squares = 0;
    for (const double x : rows.condition.values) {
      const double weight = std::exp(-2 * std::pow(x - rows.condition.values[p], 2));
      weights += weight;
      squares += weight * weight;
    }
    // The mean of l (1 - l) over l = .05, .10, .., .95 is .175.
    expected += 0.175 * squares / weights / weights / 80;
  }
  const ResamplingResult& test = result.mean_error.test;
  EXPECT_NEAR(test.replicate_mean, expected,
              5 * test.replicate_standard_deviation / std::sqrt(20000));
  for (const LocalPlace& place : result.worst) {
    EXPECT_NEAR(place.expected_error, 0.175 / place.effective_rows, 1e-12);
  }
}

TEST(LocalCalibrationTest, PValuesOfAllPlacesTogetherAreExact) {
  // With 99 replicates P(p <= .05) is .05; 4 standard errors of 600 runs are .036.
  int means = 0;
  int places = 0;
  for (std::uint64_t run = 0; run < 600; ++run) {
    const LocalCalibration result = LocalRows(40, 1000 + run).Tested();
    means += result.mean_error.test.p_value <= 0.05 ? 1 : 0;
    places += result.worst.front().p_value <= 0.05 ? 1 : 0;
    for (std::size_t k = 1; k < result.worst.size(); ++k) {
      EXPECT_GE(result.worst[k].p_value, result.worst[k - 1].p_value);
    }
  }
  EXPECT_NEAR(means / 600.0, 0.05, 0.036);
  EXPECT_NEAR(places / 600.0, 0.05, 0.036);
}

TEST(LocalCalibrationTest, TheResultDoesNotDependOnThreads) {
  const LocalRows rows(300, 3, 1);
  RunControl control;
  control.parallel_for = [](std::size_t count, const std::function<void(std::size_t)>& body) {
    std::atomic<std::size_t> next = 0;
    std::vector<std::jthread> threads;
    for (int t = 0; t < 3; ++t) {
      threads.emplace_back([&] {
        for (std::size_t i = next++; i < count; i = next++) body(i);
      });
    }
  };
  const LocalCalibration one = rows.Tested();
  const LocalCalibration three = rows.Tested(99, control);
  EXPECT_EQ(one.mean_error.test.p_value, three.mean_error.test.p_value);
  EXPECT_EQ(one.mean_error.test.replicate_mean, three.mean_error.test.replicate_mean);
  for (std::size_t k = 0; k < one.worst.size(); ++k) {
    EXPECT_EQ(one.worst[k].row, three.worst[k].row);
    EXPECT_EQ(one.worst[k].p_value, three.worst[k].p_value);
  }
}

TEST(LocalCalibrationTest, AtTheEdges) {
  const LocalCalibration one = LocalRows(1, 4).Tested();
  EXPECT_EQ(one.place_count, 1U);
  EXPECT_DOUBLE_EQ(one.worst.at(0).effective_rows, 1);
  EXPECT_EQ(LocalPlaceCount(20000), 100U);
  EXPECT_EQ(LocalPlaceCount(40000), 50U);
  EXPECT_EQ(LocalPlaceCount(1000000), 10U);
  // Every row is far from all others: each place has one row.
  LocalRows apart(30, 5);
  for (std::size_t i = 0; i < 30; ++i) apart.condition.values[i] = 1e3 * static_cast<double>(i);
  for (const LocalPlace& place : apart.Tested().worst) EXPECT_DOUBLE_EQ(place.effective_rows, 1);
  const auto form = TestLocalCalibration(apart.pit, apart.condition, {.replicates = 99});
  EXPECT_THAT(std::string(form.status().message()), HasSubstr("null is form, expected forecast"));
  const auto few = TestLocalCalibration(apart.pit, apart.condition,
                                        {.replicates = 98, .null = NullHypothesis::kForecast});
  EXPECT_THAT(std::string(few.status().message()), HasSubstr("98"));
}

}  // namespace
}  // namespace calibd
