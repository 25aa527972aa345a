#include "loss/gaussian_pairs.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <random>
#include <vector>

namespace calibd {
namespace {

TEST(GaussianPairsTest, PointsEqualTheDefinitionForEveryCountAndWidth) {
  std::mt19937_64 rng(1);
  std::normal_distribution<double> normal;
  for (const std::size_t width : {1U, 2U, 5U}) {
    for (const std::size_t n : {1U, 2U, 7U, 33U, 70U}) {
      std::vector<double> values(n * width);
      for (double& value : values) value = normal(rng);
      const GaussianPoints points(values, width, 0.3);
      for (std::size_t first = 0; first < n; ++first) {
        const std::size_t i = n / 2;
        std::vector<double> kernel(n - first + 1, -1.0);
        points.Compute(i, first, std::span(kernel).first(n - first));
        EXPECT_EQ(kernel.back(), -1) << "a value after the last column was written";
        std::vector<double> sums(width);
        std::vector<double> expected(width);
        points.AddDifferences(i, first, std::span(kernel).first(n - first), 2, sums);
        for (std::size_t j = first; j < n; ++j) {
          double square = 0;
          for (std::size_t k = 0; k < width; ++k) {
            const double difference = values[i * width + k] - values[j * width + k];
            square += difference * difference;
            expected[k] += 2 * kernel[j - first] * difference;
          }
          EXPECT_NEAR(kernel[j - first], std::exp(-0.3 * square), 1e-14);
        }
        for (std::size_t k = 0; k < width; ++k) EXPECT_NEAR(sums[k], expected[k], 1e-12);
      }
    }
  }
}

// E exp(-gamma (X - b)^2) for X normal with mean a and variance v.
double Kappa(double a, double b, double v, double gamma) {
  const double q = 1 + 2 * gamma * v;
  return std::exp(-gamma * (a - b) * (a - b) / q) / std::sqrt(q);
}

TEST(GaussianPairsTest, ForecastsEqualTheDefinition) {
  std::mt19937_64 rng(2);
  std::normal_distribution<double> normal;
  constexpr double kGamma = 0.7;
  for (const std::size_t n : {1U, 9U, 67U}) {
    std::vector<double> values;
    std::vector<double> outcomes;
    for (std::size_t i = 0; i < n; ++i) {
      values.insert(values.end(), {normal(rng), std::exp(normal(rng))});
      outcomes.push_back(normal(rng));
    }
    const ForecastBatch batch{ForecastKind::kNormal, values, 2, {}, outcomes};
    const GaussianForecasts forecasts(batch, kGamma);
    // A_ij with other values of forecast i.
    const auto term = [&](double mean, double sd, std::size_t i, std::size_t j) {
      const double other = values[2 * j];
      const double v = values[2 * j + 1] * values[2 * j + 1];
      return Kappa(outcomes[i], outcomes[j], 0, kGamma) + Kappa(mean, other, sd * sd + v, kGamma) -
             Kappa(mean, outcomes[j], sd * sd, kGamma) - Kappa(other, outcomes[i], v, kGamma);
    };
    for (std::size_t i = 0; i < n; ++i) {
      const std::size_t first = i / 2;
      std::vector<double> terms(n - first + 1, -9.0);
      const std::span<double> some = std::span(terms).first(n - first);
      forecasts.Compute(i, first, some);
      EXPECT_EQ(terms.back(), -9) << "a value after the last column was written";
      std::vector<double> weights(n - first);
      for (double& weight : weights) weight = normal(rng);
      std::vector<double> again(n - first);
      std::vector<double> gradient = {1, 2};
      forecasts.Compute(i, first, weights, again, gradient);
      double d_mean = 1;
      double d_deviation = 2;
      const double mean = values[2 * i];
      const double sd = values[2 * i + 1];
      constexpr double kStep = 1e-5;
      for (std::size_t j = first; j < n; ++j) {
        EXPECT_NEAR(terms[j - first], term(mean, sd, i, j), 1e-14);
        EXPECT_EQ(again[j - first], terms[j - first]);
        const double weight = weights[j - first] / (2 * kStep);
        d_mean += weight * (term(mean + kStep, sd, i, j) - term(mean - kStep, sd, i, j));
        d_deviation += weight * (term(mean, sd + kStep, i, j) - term(mean, sd - kStep, i, j));
      }
      EXPECT_NEAR(gradient[0], d_mean, 1e-8);
      EXPECT_NEAR(gradient[1], d_deviation, 1e-8);
    }
  }
}

TEST(GaussianPairsTest, FarAndExtremeForecastsAreFinite) {
  const std::vector<double> values = {0, 1e-300, 1e100, 1e-10, -1e100, 1e100, 1, 1e150};
  const std::vector<double> outcomes = {1, -1e100, 1e50, 0};
  const ForecastBatch batch{ForecastKind::kNormal, values, 2, {}, outcomes};
  const GaussianForecasts forecasts(batch, 2);
  const GaussianPoints points(values, 2, 2);
  for (std::size_t i = 0; i < 4; ++i) {
    std::vector<double> terms(4);
    std::vector<double> gradient(2);
    forecasts.Compute(i, 0, std::vector(4, 1.0), terms, gradient);
    for (const double term : terms) EXPECT_LE(std::abs(term), 4);
    for (const double value : gradient) EXPECT_TRUE(std::isfinite(value)) << i;
    std::vector<double> kernel(4);
    points.Compute(i, 0, kernel);
    for (std::size_t j = 0; j < 4; ++j) EXPECT_NEAR(kernel[j], i == j ? 1 : 0, 1e-300);
  }
}

}  // namespace
}  // namespace calibd
