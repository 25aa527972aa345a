// The sum over the pairs of Normal forecasts without a gradient, with every instruction set of this
// CPU.
#include <gtest/gtest.h>

#include <atomic>
#include <cmath>
#include <functional>
#include <limits>
#include <random>
#include <thread>
#include <variant>
#include <vector>

#include "calibd/core/calibration_loss.h"
#include "simd_targets.h"
#include "support/small_forecasts.h"

namespace calibd {
namespace {

using testing::ForecastSet;

ForecastSet DrawNormals(std::size_t n, double offset, double unit) {
  std::mt19937_64 random(n);
  std::normal_distribution<double> normal;
  ForecastSet set{ForecastKind::kNormal, 2, {}, {}, {}};
  for (std::size_t i = 0; i < n; ++i) {
    const double mean = offset + unit * normal(random);
    const double deviation = unit * std::exp(normal(random));
    set.values.insert(set.values.end(), {mean, deviation});
    set.outcomes.push_back(mean + 1.5 * deviation * normal(random));
  }
  return set;
}

struct Gammas {
  double outcome;
  // 0: forecasts are not compared.
  double condition;
};

// Sums of h_ij over all i != j, and over i = j, and that of |h_ij|.
struct Sums {
  long double off_diagonal = 0;
  long double diagonal = 0;
  long double absolute = 0;
};

// By the definition.
Sums SumByDefinition(const ForecastSet& set, const Gammas& gammas) {
  using Real = long double;
  const auto kappa = [gamma = Real{gammas.outcome}](Real a, Real b, Real variance) {
    const Real q = 1 + 2 * gamma * variance;
    return std::exp(-gamma * (a - b) * (a - b) / q) / std::sqrt(q);
  };
  Sums sums;
  const std::size_t n = set.outcomes.size();
  for (std::size_t i = 0; i < n; ++i) {
    const Real mean_i = set.values[2 * i];
    const Real sd_i = set.values[2 * i + 1];
    const Real y_i = set.outcomes[i];
    for (std::size_t j = 0; j < n; ++j) {
      const Real mean_j = set.values[2 * j];
      const Real sd_j = set.values[2 * j + 1];
      const Real y_j = set.outcomes[j];
      const Real distance = (mean_i - mean_j) * (mean_i - mean_j) + (sd_i - sd_j) * (sd_i - sd_j);
      const Real h = std::exp(-Real{gammas.condition} * distance) *
                     (kappa(y_i, y_j, 0) + kappa(mean_i, mean_j, sd_i * sd_i + sd_j * sd_j) -
                      kappa(mean_i, y_j, sd_i * sd_i) - kappa(mean_j, y_i, sd_j * sd_j));
      (i == j ? sums.diagonal : sums.off_diagonal) += h;
      sums.absolute += std::abs(h);
    }
  }
  return sums;
}

LossOptions OptionsOf(const Gammas& gammas) {
  LossOptions options;
  options.outcome_kernel = RbfKernel{gammas.outcome};
  options.condition = NoCondition();
  if (gammas.condition > 0) {
    options.condition = ForecastCondition{.bandwidth = {}, .gamma = gammas.condition};
  }
  options.gradient = false;
  return options;
}

double Mmd(const ForecastSet& set, const Gammas& gammas, bool biased,
           const RunControl& control = {}) {
  LossOptions options = OptionsOf(gammas);
  options.biased = biased;
  const auto loss = ComputeLoss(set.view(), options, control);
  EXPECT_TRUE(loss.ok()) << loss.status();
  return loss.ok() ? loss->mmd_squared : std::numeric_limits<double>::quiet_NaN();
}

TEST(NormalPairsTest, EveryTargetAgreesWithTheDefinition) {
  // The sizes leave every number of lanes empty, and 523 columns need two blocks.
  for (const std::size_t n : {1u, 2u, 3u, 4u, 5u, 6u, 7u, 8u, 9u, 16u, 17u, 523u}) {
    for (const double offset : {0.0, 1e6}) {
      const ForecastSet set = DrawNormals(n, offset, 2);
      for (const Gammas& gammas :
           {Gammas{0.15, 0}, Gammas{0.15, 0.3}, Gammas{20, 40}, Gammas{1e-4, 1e-4}}) {
        SCOPED_TRACE(::testing::Message() << n << " rows, " << gammas.outcome << ", "
                                          << gammas.condition << ", " << offset);
        const Sums expected = SumByDefinition(set, gammas);
        const auto count = static_cast<long double>(n);
        // A tiny gamma leaves the difference of four terms near 1.
        const auto tolerance =
            1e-12 * static_cast<double>(expected.absolute / count / count) + 4e-16;
        testing::ForEachTarget([&] {
          EXPECT_NEAR(
              Mmd(set, gammas, true),
              static_cast<double>((expected.off_diagonal + expected.diagonal) / count / count),
              tolerance);
          if (n < 2) return;
          EXPECT_NEAR(Mmd(set, gammas, false),
                      static_cast<double>(expected.off_diagonal / count / (count - 1)),
                      2 * tolerance);
        });
      }
    }
  }
}

// Without a gradient the pairs have code of their own, except for values near the largest number.
TEST(NormalPairsTest, ExtremeValuesAgreeWithTheGradient) {
  const auto check = [](const ForecastSet& set, const Gammas& gammas) {
    SCOPED_TRACE(::testing::Message() << set.values[0] << ", " << set.values[1] << ", "
                                      << gammas.outcome << ", " << gammas.condition);
    LossOptions options = OptionsOf(gammas);
    options.gradient = true;
    options.biased = true;
    testing::ForEachTarget([&] {
      const double mmd = Mmd(set, gammas, true);
      EXPECT_TRUE(std::isfinite(mmd));
      const auto loss = ComputeLoss(set.view(), options);
      // A gradient may exceed the range of double.
      if (loss.ok()) {
        EXPECT_NEAR(mmd, loss->mmd_squared, 1e-15);
      }
    });
  };
  for (const double gamma : {1e-300, 1e-10, 1.0, 1e10, 1e300}) {
    for (const double condition : {0.0, 1e-300, 1.0, 1e300}) {
      const Gammas gammas{gamma, condition};
      for (const double mean : {0.0, 1e-300, 1.0, 1e149, 1e160, -1e307}) {
        for (const double deviation : {1e-300, 1e-150, 1.0, 1e149, 1e160, 1e307}) {
          if (!std::isfinite(mean / deviation)) continue;
          check({ForecastKind::kNormal,
                 2,
                 {mean, deviation, 0, 1, mean, deviation},
                 {},
                 {0, 0.5, mean}},
                gammas);
        }
      }
    }
  }
}

TEST(NormalPairsTest, EqualForecastsWithEqualOutcomesHaveOneTerm) {
  const Gammas gammas{0.5, 2};
  ForecastSet set{ForecastKind::kNormal, 2, {}, {}, std::vector<double>(21, 3)};
  for (int i = 0; i < 21; ++i) set.values.insert(set.values.end(), {1, 2});
  // kappa(3, 3; 0) + kappa(1, 1; 8) - 2 kappa(1, 3; 4) with gamma = 1/2.
  const double expected = 1 + 1.0 / 3 - 2 * std::exp(-0.4) / std::sqrt(5);
  testing::ForEachTarget([&] {
    EXPECT_NEAR(Mmd(set, gammas, false), expected, 1e-15);
    EXPECT_NEAR(Mmd(set, gammas, true), expected, 1e-15);
  });
}

TEST(NormalPairsTest, ThreadsDoNotChangeABit) {
  RunControl control;
  control.parallel_for = [](std::size_t count, const std::function<void(std::size_t)>& body) {
    std::atomic<std::size_t> next = 0;
    std::vector<std::jthread> threads;
    for (int t = 0; t < 3; ++t) {
      threads.emplace_back([&] {
        for (std::size_t i = next++; i < count; i = next++) body(count - 1 - i);
      });
    }
  };
  const ForecastSet set = DrawNormals(700, 0, 1);
  for (const bool biased : {false, true}) {
    testing::ExpectBits(Mmd(set, {0.2, 0.4}, biased, control), Mmd(set, {0.2, 0.4}, biased));
  }
}

}  // namespace
}  // namespace calibd
