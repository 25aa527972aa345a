#include <gtest/gtest.h>

#include <cmath>
#include <cstddef>
#include <random>
#include <string>
#include <vector>

#include "calibd/core/calibration_loss.h"
#include "calibd/core/distance.h"
#include "unit/core/drawn_losses.h"

namespace calibd::testing {
namespace {

struct DirectLoss {
  double value = 0;
  std::vector<double> gradient;
};

// d distance(x, z) / dx_k.
double Slope(Distance distance, double whole, double x, double z) {
  const int sign = static_cast<int>(x > z) - static_cast<int>(x < z);
  switch (distance) {
    case Distance::kTotalVariation:
      return 0.5 * sign;
    case Distance::kCityblock:
      return sign;
    case Distance::kEuclidean:
      return whole > 0 ? (x - z) / whole : 0;
    case Distance::kSquaredEuclidean:
      break;
  }
  return 2 * (x - z);
}

// The squared discrepancy and its gradient, pair by pair from their definition.
DirectLoss Direct(const ForecastSet& set, Distance distance, double bandwidth, bool biased) {
  const std::size_t m = set.width;
  const std::size_t n = set.labels.size();
  const auto row = [&](std::size_t i) { return std::span(set.values).subspan(i * m, m); };
  const auto residual = [&](std::size_t i, std::size_t k) {
    return (static_cast<std::size_t>(set.labels[i]) == k ? 1.0 : 0.0) - row(i)[k];
  };
  DirectLoss loss{0, std::vector<double>(set.values.size())};
  for (std::size_t i = 0; i < n; ++i) {
    for (std::size_t j = 0; j < n; ++j) {
      if (i == j && !biased) continue;
      const double d = DistanceOf(distance, row(i), row(j));
      const double kernel = std::exp(-d / bandwidth);
      double product = 0;
      for (std::size_t k = 0; k < m; ++k) product += residual(i, k) * residual(j, k);
      loss.value += kernel * product;
      for (std::size_t k = 0; k < m; ++k) {
        loss.gradient[i * m + k] +=
            2 * kernel *
            (-Slope(distance, d, row(i)[k], row(j)[k]) / bandwidth * product - residual(j, k));
      }
    }
  }
  const auto size = static_cast<double>(n);
  const double pairs = biased ? size * size : size * (size - 1);
  loss.value /= pairs;
  for (double& value : loss.gradient) value /= pairs;
  return loss;
}

// Some rows are equal, and some probabilities are 0.
ForecastSet DrawWithTies(std::size_t n, std::size_t m) {
  ForecastSet set = DrawClasses(ForecastKind::kProbabilities, n, m, n + m);
  for (std::size_t i = 0; i + 1 < n; i += 7) {
    for (std::size_t k = 0; k < m; ++k) set.values[(i + 1) * m + k] = set.values[i * m + k];
  }
  for (std::size_t i = 0; i < n; i += 5) {
    set.values[i * m] += set.values[i * m + m - 1];
    set.values[i * m + m - 1] = 0;
  }
  return set;
}

// The sizes are below, at and above those of a vector, a panel, a task and a tile.
TEST(ClassPairsTest, TheSumsAndTheGradientEqualThePairs) {
  struct Size {
    std::size_t n;
    std::size_t m;
  };
  constexpr double kBandwidth = 0.4;
  for (const Size size : {Size{2, 2}, Size{7, 3}, Size{32, 2}, Size{33, 10}, Size{256, 3},
                          Size{300, 4}, Size{40, 600}}) {
    const ForecastSet set = DrawWithTies(size.n, size.m);
    for (const Distance distance : {Distance::kTotalVariation, Distance::kCityblock,
                                    Distance::kEuclidean, Distance::kSquaredEuclidean}) {
      for (const bool biased : {false, true}) {
        SCOPED_TRACE(std::to_string(size.n) + " x " + std::to_string(size.m) + " distance " +
                     std::to_string(static_cast<int>(distance)) + (biased ? " biased" : ""));
        LossOptions options;
        options.biased = biased;
        options.condition =
            ForecastCondition{.distance = distance, .bandwidth = kBandwidth, .gamma = {}};
        const CalibrationLoss loss = Compute(set, options);
        const DirectLoss direct = Direct(set, distance, kBandwidth, biased);
        // The terms are at most 2 each.
        EXPECT_NEAR(loss.penalty_value, direct.value, 1e-13);
        EXPECT_NEAR(Mmd(set, options, biased), direct.value, 1e-13);
        ASSERT_EQ(loss.gradient.size(), direct.gradient.size());
        for (std::size_t k = 0; k < loss.gradient.size(); ++k) {
          ASSERT_NEAR(loss.gradient[k], direct.gradient[k], 1e-13) << k;
        }
      }
    }
  }
}

}  // namespace
}  // namespace calibd::testing
