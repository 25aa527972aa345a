// The sum over the pairs of Normal forecasts without a gradient, with every instruction set of this
// CPU.
#include <gtest/gtest.h>

#include <atomic>
#include <cmath>
#include <functional>
#include <limits>
#include <numbers>
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
  // The gamma of the RbfKernel; 0 means EnergyKernel.
  double outcome;
  // The gamma of the condition; 0 means that forecasts are not compared.
  double condition;
};

// Sums of h_ij over all i != j, and over i = j, and that of |h_ij|.
struct Sums {
  long double off_diagonal = 0;
  long double diagonal = 0;
  long double absolute = 0;
};

using Real = long double;

struct RealNormal {
  Real mean;
  Real deviation;
  Real outcome;
};

// A_ij by the closed forms.
Real RbfTerm(const RealNormal& x, const RealNormal& z, Real gamma) {
  const auto kappa = [gamma](Real a, Real b, Real variance) {
    const Real q = 1 + 2 * gamma * variance;
    return std::exp(-gamma * (a - b) * (a - b) / q) / std::sqrt(q);
  };
  return kappa(x.outcome, z.outcome, 0) +
         kappa(x.mean, z.mean, x.deviation * x.deviation + z.deviation * z.deviation) -
         kappa(x.mean, z.outcome, x.deviation * x.deviation) -
         kappa(z.mean, x.outcome, z.deviation * z.deviation);
}
Real EnergyTerm(const RealNormal& x, const RealNormal& z) {
  // E|N(m, s^2)|.
  const auto mean_absolute = [](Real m, Real s) {
    const Real t = m / s / std::numbers::sqrt2_v<Real>;
    return m * std::erf(t) + s * std::sqrt(2 / std::numbers::pi_v<Real>) * std::exp(-t * t);
  };
  return (mean_absolute(x.mean - z.outcome, x.deviation) +
          mean_absolute(z.mean - x.outcome, z.deviation) -
          mean_absolute(x.mean - z.mean, std::hypot(x.deviation, z.deviation)) -
          std::abs(x.outcome - z.outcome)) /
         2;
}

Sums SumByDefinition(const ForecastSet& set, const Gammas& gammas) {
  Sums sums;
  const std::size_t n = set.outcomes.size();
  const auto row = [&set](std::size_t i) {
    return RealNormal{Real(set.values[2 * i]), Real(set.values[2 * i + 1]), Real(set.outcomes[i])};
  };
  for (std::size_t i = 0; i < n; ++i) {
    const RealNormal x = row(i);
    for (std::size_t j = 0; j < n; ++j) {
      const RealNormal z = row(j);
      const Real of_means = x.mean - z.mean;
      const Real of_deviations = x.deviation - z.deviation;
      const Real h = std::exp(-Real(gammas.condition) *
                              (of_means * of_means + of_deviations * of_deviations)) *
                     (gammas.outcome == 0 ? EnergyTerm(x, z) : RbfTerm(x, z, Real(gammas.outcome)));
      (i == j ? sums.diagonal : sums.off_diagonal) += h;
      sums.absolute += std::abs(h);
    }
  }
  return sums;
}

LossOptions OptionsOf(const Gammas& gammas) {
  LossOptions options;
  options.outcome_kernel = RbfKernel{gammas.outcome};
  if (gammas.outcome == 0) options.outcome_kernel = EnergyKernel();
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
  return loss.ok() ? loss->penalty_value : std::numeric_limits<double>::quiet_NaN();
}

TEST(NormalPairsTest, EveryTargetAgreesWithTheDefinition) {
  // The sizes leave every number of lanes empty, and 523 columns need two blocks.
  for (const std::size_t n : {1u, 2u, 3u, 4u, 5u, 6u, 7u, 8u, 9u, 16u, 17u, 523u}) {
    for (const double offset : {0.0, 1e6}) {
      if (n > 100 && offset != 0) continue;
      const ForecastSet set = DrawNormals(n, offset, 2);
      for (const Gammas& gammas :
           {Gammas{0.15, 0}, Gammas{0.15, 0.3}, Gammas{20, 40}, Gammas{1e-4, 1e-4}, Gammas{0, 0},
            Gammas{0, 0.3}, Gammas{0, 40}}) {
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
        EXPECT_NEAR(mmd, loss->penalty_value, 1e-15 * (1 + std::abs(loss->penalty_value)));
      }
    });
  };
  for (const double gamma : {0.0, 1e-300, 1e-10, 1.0, 1e10, 1e300}) {
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
  ForecastSet set{ForecastKind::kNormal, 2, {}, {}, std::vector<double>(21, 3)};
  for (int i = 0; i < 21; ++i) set.values.insert(set.values.end(), {1, 2});
  // kappa(3, 3; 0) + kappa(1, 1; 8) - 2 kappa(1, 3; 4) with gamma = 1/2.
  const double expected = 1 + 1.0 / 3 - 2 * std::exp(-0.4) / std::sqrt(5);
  // The CRPS of t = 1, in units of the standard deviation 2.
  const double crps =
      2 * (std::erf(1 / std::numbers::sqrt2) +
           2 * std::exp(-0.5) / std::sqrt(2 * std::numbers::pi) - 1 / std::sqrt(std::numbers::pi));
  testing::ForEachTarget([&] {
    for (const bool biased : {false, true}) {
      EXPECT_NEAR(Mmd(set, {0.5, 2}, biased), expected, 1e-15);
      EXPECT_NEAR(Mmd(set, {0, 2}, biased), crps, 1e-15);
    }
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
    for (const double gamma : {0.0, 0.2}) {
      testing::ExpectBits(Mmd(set, {gamma, 0.4}, biased, control), Mmd(set, {gamma, 0.4}, biased));
    }
  }
}

}  // namespace
}  // namespace calibd
