#ifndef CALIBD_TESTS_UNIT_CORE_DRAWN_LOSSES_H_
#define CALIBD_TESTS_UNIT_CORE_DRAWN_LOSSES_H_

#include <gtest/gtest.h>

#include <cmath>
#include <cstddef>
#include <cstdint>
#include <random>
#include <vector>

#include "calibd/core/calibration_loss.h"
#include "support/small_forecasts.h"

// Losses of forecasts, and forecasts that are drawn at random.
namespace calibd::testing {

inline CalibrationLoss Compute(const ForecastSet& set, const LossOptions& options) {
  const auto loss = ComputeLoss(set.view(), options);
  EXPECT_TRUE(loss.ok()) << loss.status();
  return loss.value_or(CalibrationLoss());
}

inline double Mmd(const ForecastSet& set, LossOptions options, bool biased) {
  options.biased = biased;
  options.gradient = false;
  return Compute(set, options).penalty_value;
}

inline ForecastSet DrawClasses(ForecastKind kind, std::size_t n, std::size_t m,
                               std::uint64_t seed = 5) {
  std::mt19937_64 random(seed);
  std::normal_distribution<double> normal;
  ForecastSet set{kind, m, {}, {}, {}};
  for (std::size_t i = 0; i < n; ++i) {
    std::vector<double> row(m);
    for (double& value : row) value = normal(random);
    if (kind == ForecastKind::kProbabilities) Softmax(row);
    set.values.insert(set.values.end(), row.begin(), row.end());
    set.labels.push_back(static_cast<std::int32_t>(random() % m));
  }
  return set;
}

inline ForecastSet DrawNumbers(ForecastKind kind, std::size_t n, std::size_t width = 2,
                               std::uint64_t seed = 5) {
  std::mt19937_64 random(seed);
  std::normal_distribution<double> normal;
  ForecastSet set{kind, width, {}, {}, {}};
  for (std::size_t i = 0; i < n; ++i) {
    const double mean = normal(random);
    const double sd = std::exp(0.5 * normal(random));
    for (std::size_t k = 0; k < width; ++k) {
      set.values.push_back(kind == ForecastKind::kSamples ? mean + sd * normal(random)
                           : k == 0                       ? mean
                                                          : sd);
    }
    set.outcomes.push_back(mean + 1.3 * sd * normal(random));
  }
  return set;
}

}  // namespace calibd::testing

#endif  // CALIBD_TESTS_UNIT_CORE_DRAWN_LOSSES_H_
