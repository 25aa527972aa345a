#include "calibd/core/error_interval.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <random>
#include <vector>

#include "support/test_data.h"

namespace calibd {
namespace {

constexpr double kIntervalAlpha = 0.05;
// The budget of a model's top label: the rest, alpha / 2, is for the recent error.
constexpr ErrorLevels kErrorLevels{.bins = 3 * kIntervalAlpha / 8, .gap = kIntervalAlpha / 8};

// Events that happen with the stated probability plus `shift`, stated uniformly over [from, 1].
ReliabilitySums Stream(std::size_t n, double from, double shift, std::uint64_t seed) {
  std::mt19937_64 rng(seed);
  std::uniform_real_distribution<double> uniform(0, 1);
  ReliabilitySums sums;
  for (std::size_t i = 0; i < n; ++i) {
    const double c = from + (1 - from) * uniform(rng);
    sums.Add(c, uniform(rng) < c + shift);
  }
  return sums;
}

TEST(MixtureBoundaryTest, HasTheKnownValues) {
  const double k = std::log(20 * std::pow(2, 14));
  EXPECT_NEAR(MixtureBoundary(70, k), 54.98934566, 5e-9);
  EXPECT_NEAR(MixtureBoundary(7000, k), 474.54581872, 5e-9);
}

TEST(MixtureBoundaryTest, SolvesItsEquation) {
  for (const double v : {0.0, 1.0, 70.0, 1e4, 1e8}) {
    for (const double k : {3.0, 10.0, 100.0}) {
      const double a = v + 10;
      const double r = std::log(1 + std::exp(k + std::log(a) / 2 - 1.755));
      const double u = MixtureBoundary(v, k);
      EXPECT_NEAR(u - a * std::log1p(u / a), r, 1e-12 * (a + r)) << v << " " << k;
    }
  }
}

TEST(MixtureBoundaryTest, RisesWithBothArgumentsAndIsFinite) {
  for (const double v : {0.0, 1e-300, 1e-3, 1.0, 1e3, 1e9, 1e15}) {
    for (const double k : {1e-3, 1.0, 20.0, 700.0}) {
      const double u = MixtureBoundary(v, k);
      EXPECT_TRUE(std::isfinite(u) && u > 0) << v << " " << k;
      EXPECT_GT(MixtureBoundary(2 * v + 1, k), u);
      EXPECT_GT(MixtureBoundary(v, 1.1 * k), u);
    }
  }
}

// Both ends by all subsets of the visited bins.
TEST(BinnedErrorIntervalTest, EndsAreTheBestOverAllSetsOfBins) {
  for (std::uint64_t seed = 0; seed < 20; ++seed) {
    const ReliabilitySums sums = Stream(200 + 150 * seed, 0.3, seed % 2 == 0 ? 0 : -0.3, seed);
    const ErrorInterval interval = *BinnedErrorInterval(sums, kErrorLevels);
    std::vector<double> deviations;
    std::vector<double> caps;
    const ReliabilitySums::Bin total = sums.Total();
    EXPECT_DOUBLE_EQ(*interval.stated * static_cast<double>(total.count), total.confidence);
    EXPECT_NEAR(*interval.stated - interval.gap,
                static_cast<double>(total.correct) / static_cast<double>(total.count), 1e-12);
    double gap = 0;
    double count = 0;
    for (const ReliabilitySums::Bin& bin : sums.bins) {
      if (bin.count == 0) continue;
      const auto n = static_cast<double>(bin.count);
      gap += bin.confidence - static_cast<double>(bin.correct);
      count += n;
      deviations.push_back(std::abs(bin.confidence - static_cast<double>(bin.correct)));
      caps.push_back(std::max(bin.confidence, n - bin.confidence));
    }
    const double width = MixtureBoundary(sums.square_sum, std::log(2 / kErrorLevels.gap));
    double lower = std::max(0.0, std::abs(gap) - width);
    double upper = count;
    for (std::uint32_t set = 0; set < std::uint32_t{1} << deviations.size(); ++set) {
      double inside = 0;
      double outside = 0;
      int size = 0;
      for (std::size_t b = 0; b < deviations.size(); ++b) {
        const bool is_member = (set >> b & 1) != 0;
        size += is_member ? 1 : 0;
        inside += is_member ? deviations[b] : 0;
        outside += is_member ? 0 : caps[b];
      }
      const double u = size == 0 ? 0
                                 : MixtureBoundary(sums.square_sum,
                                                   std::log(std::pow(2, size) / kErrorLevels.bins));
      lower = std::max(lower, inside - u);
      upper = std::min(upper, inside + u + outside);
    }
    EXPECT_NEAR(interval.lower, lower / count, 1e-12);
    EXPECT_NEAR(interval.upper, std::min(1.0, upper / count), 1e-12);
    EXPECT_NEAR(interval.gap, gap / count, 1e-12);
    EXPECT_NEAR(interval.gap_upper - interval.gap, width / count, 1e-12);
    EXPECT_DOUBLE_EQ(interval.estimate, sums.ExpectedCalibrationError());
    EXPECT_LE(interval.lower, interval.estimate);
    EXPECT_LE(interval.estimate, interval.upper);
  }
}

TEST(BinnedErrorIntervalTest, Edges) {
  ReliabilitySums sums;
  EXPECT_FALSE(BinnedErrorInterval(sums, kErrorLevels).has_value());
  // One observation says nothing.
  sums.Add(1, false);
  ErrorInterval interval = *BinnedErrorInterval(sums, kErrorLevels);
  EXPECT_EQ(interval.lower, 0);
  EXPECT_EQ(interval.upper, 1);
  EXPECT_EQ(interval.gap_lower, -1);
  EXPECT_EQ(interval.gap_upper, 1);
  // Certain and always wrong, certain and always right.
  for (int i = 0; i < 100000; ++i) sums.Add(1, false);
  interval = *BinnedErrorInterval(sums, kErrorLevels);
  EXPECT_EQ(interval.estimate, 1);
  EXPECT_GT(interval.lower, 0.98);
  EXPECT_EQ(interval.upper, 1);
  ReliabilitySums right;
  for (int i = 0; i < 100000; ++i) right.Add(1, true);
  interval = *BinnedErrorInterval(right, kErrorLevels);
  EXPECT_EQ(interval.estimate, 0);
  EXPECT_EQ(interval.lower, 0);
  EXPECT_LT(interval.upper, 1e-3);
  EXPECT_EQ(interval.gap, 0);
}

TEST(BinnedErrorIntervalTest, SumsOfPartsAdd) {
  ReliabilitySums parts = Stream(500, 0.5, 0, 1);
  ReliabilitySums other = Stream(700, 0.1, -0.1, 2);
  const double squares = parts.square_sum + other.square_sum;
  parts.Merge(other);
  EXPECT_DOUBLE_EQ(parts.square_sum, squares);
  EXPECT_EQ(parts.Total().count, 1200);
}

TEST(BinnedErrorIntervalTest, HasTheMeasuredWidthsOnRealNetworks) {
  struct Known {
    const char* network;
    // The values in percentage points.
    double estimate, lower, upper, gap, gap_width;
  };
  for (const Known& known :
       {Known{"resnet18", 5.4, 4.2, 6.8, 5.3, 1.0}, Known{"densenet121", 4.1, 3.1, 5.4, 4.1, 1.0},
        Known{"googlenet", 1.4, 0.1, 2.7, 1.4, 1.0}}) {
    const auto set = testing::ReadCifar10(known.network);
    if (!set.has_value()) GTEST_SKIP() << "no predictions in " << testing::Cifar10Dir();
    RunningReliability sums;
    sums.Add(set->view());
    const ErrorInterval interval = *BinnedErrorInterval(sums, kErrorLevels);
    // They are known to one decimal; bins of theirs hold their lower edge, not their upper one.
    EXPECT_NEAR(100 * interval.estimate, known.estimate, 0.06) << known.network;
    EXPECT_NEAR(100 * interval.lower, known.lower, 0.06) << known.network;
    EXPECT_NEAR(100 * interval.upper, known.upper, 0.06) << known.network;
    EXPECT_LE(100 * (interval.gap_upper - interval.gap), 1.05 * known.gap_width + 0.05);
  }
}

TEST(FixedRateBoundaryTest, HasTheKnownValues) {
  // By V.
  const double k0 = std::log(20) + 7 * std::log(2);
  const FixedRateBoundary by_variance(1000, 60, k0);
  EXPECT_NEAR(by_variance(70, std::log(20 * std::pow(2, 14))), 52.27106490, 5e-9);
  // By n.
  const FixedRateBoundary by_count(92, 18, std::log(160));
  EXPECT_NEAR(by_count(18, std::log(160)), 15.27933230, 5e-9);
  for (const FixedRateBoundary& boundary : {by_variance, by_count}) {
    for (const double k : {0.5, 5.0, 50.0}) {
      EXPECT_NEAR(boundary.LogProduct(boundary(33, k), 33), k, 1e-12 * k);
    }
  }
}

// At the K for which lambda is chosen, the second boundary is that of Hoeffding.
TEST(FixedRateBoundaryTest, WithoutTheVarianceItIsHoeffdings) {
  for (const double n : {1.0, 92.0, 1e6}) {
    const double k = std::log(160);
    EXPECT_NEAR(FixedRateBoundary(n, std::nullopt, k)(0.3 * n, k), std::sqrt(n * k / 2),
                1e-12 * std::sqrt(n * k));
  }
}

TEST(FixedRateBoundaryTest, IsFiniteAndAtMostHoeffdingsForAPlannedVariance) {
  for (const double n : {1.0, 10.0, 1e3, 1e9}) {
    for (const double share : {0.0, 1e-9, 1e-3, 0.1, 0.25}) {
      for (const double k : {1e-3, 1.0, 5.0, 50.0}) {
        const double r = FixedRateBoundary(n, share * n, k)(share * n, k);
        EXPECT_TRUE(std::isfinite(r) && r > 0) << n << ' ' << share << ' ' << k;
        EXPECT_LE(r, std::sqrt(n * k / 2) * (1 + 1e-12)) << n << ' ' << share << ' ' << k;
      }
    }
  }
}

// exp of the K at which MixtureBoundary is s.
double Mixture(double s, double square_sum) {
  const double a = square_sum + 10;
  return (std::exp(s - a * std::log1p(s / a)) - 1) * std::exp(1.755) / std::sqrt(a);
}

TEST(OneLookBoundaryTest, IsTheLeastSumWhoseMeanOfProductsReachesTheLevel) {
  for (const double share : {1.0 / 3, 0.6}) {
    for (const double square_sum : {0.0, 5.0, 30.0, 200.0}) {
      const double k = 5;
      const FixedRateBoundary fixed(1000, 40, k - std::log(1 - share));
      const double s = OneLookBoundary(1000, 40, k, share)(square_sum, k);
      EXPECT_NEAR(
          (1 - share) * std::exp(fixed.LogProduct(s, square_sum)) + share * Mixture(s, square_sum),
          std::exp(k), 1e-7 * std::exp(k))
          << share << ' ' << square_sum;
    }
  }
}

TEST(OneLookBoundaryTest, IsFiniteAndAtMostThatOfEachPart) {
  for (const double n : {1.0, 10.0, 1e3, 1e9}) {
    for (const double share : {0.0, 1e-9, 1e-3, 0.1, 0.25, 1.0}) {
      for (const double k : {1e-3, 1.0, 5.0, 50.0, 700.0}) {
        const double r = OneLookBoundary(n, 0.1 * n, k, 0.6)(share * n, k);
        EXPECT_TRUE(std::isfinite(r) && r > 0) << n << ' ' << share << ' ' << k;
        EXPECT_LE(r, MixtureBoundary(share * n, k - std::log(0.6)))
            << n << ' ' << share << ' ' << k;
        const double part = k - std::log(0.4);
        EXPECT_LE(r, FixedRateBoundary(n, 0.1 * n, part)(share * n, part) * (1 + 1e-12))
            << n << ' ' << share << ' ' << k;
      }
    }
  }
}

// 92 equal predictions, of which 42 events happen and .2015 x 92 more are promised.
ReliabilitySums NinetyTwoRows() {
  ReliabilitySums sums;
  for (int i = 0; i < 92; ++i) sums.Add((42 + 0.2015 * 92) / 92, i < 42);
  return sums;
}

TEST(OneLookIntervalTest, OfNinetyTwoRowsExcludesTheLimit) {
  const ReliabilitySums sums = NinetyTwoRows();
  const ErrorInterval one = *BinnedErrorInterval(sums, kOneLookErrorLevels);
  // A little less than by Hoeffding's bound, with 0.0125 of the level for the gap.
  EXPECT_LT(one.gap_upper - one.gap, 0.1661);
  EXPECT_GT(one.gap_upper - one.gap, 0.1645);
  EXPECT_NEAR(one.gap_lower, 0.036, 5e-4);
  EXPECT_GE(one.lower, one.gap_lower);
  const ErrorInterval shared = *BinnedErrorInterval(sums, kOneLookErrorLevels.SharedBy(2));
  EXPECT_LT(shared.gap_upper - shared.gap, 0.1771);
  EXPECT_GT(shared.gap_upper - shared.gap, 0.1755);
  EXPECT_NEAR(shared.gap_lower, 0.025, 5e-4);
  // At all times the interval includes 0.
  EXPECT_EQ(BinnedErrorInterval(sums, kSingleErrorLevels)->lower, 0);
}

// The monitor's interval of the same rows, whatever the model says: also if it is far too confident
// or far too shy, so that V has nothing to do with the predictions.
TEST(OneLookIntervalTest, IsNeverWiderThanThatOfAllTimes) {
  for (const std::size_t n :
       {std::size_t{2}, std::size_t{50}, std::size_t{100}, std::size_t{1000}, std::size_t{10000}}) {
    for (const double from : {0.0, 0.5, 0.9, 0.99}) {
      for (const double shift : {0.0, -0.05, -0.15, -0.5, -1.0, 0.1, 1.0}) {
        const ReliabilitySums sums = Stream(n, from, shift, n);
        for (const Looks looks : {Looks::kOne, Looks::kOneInOrder}) {
          for (const std::size_t events : {std::size_t{1}, std::size_t{2}}) {
            ErrorLevels levels = kOneLookErrorLevels.SharedBy(events);
            levels.looks = looks;
            const ErrorInterval one = *BinnedErrorInterval(sums, levels);
            const ErrorInterval all = *BinnedErrorInterval(sums, kErrorLevels.SharedBy(events));
            EXPECT_GE(one.lower, all.lower - 1e-12) << n << ' ' << from << ' ' << shift;
            EXPECT_LE(one.upper, all.upper + 1e-12) << n << ' ' << from << ' ' << shift;
            EXPECT_GE(one.gap_lower, all.gap_lower - 1e-12) << n << ' ' << from << ' ' << shift;
            EXPECT_LE(one.gap_upper, all.gap_upper + 1e-12) << n << ' ' << from << ' ' << shift;
          }
        }
      }
    }
  }
}

TEST(OneLookIntervalTest, IsNarrowerThanThatOfAllTimes) {
  for (const std::size_t n :
       {std::size_t{50}, std::size_t{100}, std::size_t{1000}, std::size_t{10000}}) {
    for (const double from : {0.0, 0.5, 0.9}) {
      const ReliabilitySums sums = Stream(n, from, 0, n);
      const ErrorInterval one = *BinnedErrorInterval(sums, kOneLookErrorLevels);
      const ErrorInterval all = *BinnedErrorInterval(sums, kErrorLevels);
      EXPECT_LE(one.upper, all.upper) << n << ' ' << from;
      // The gap is narrower than that of a single hour, too.
      const ErrorInterval hour = *BinnedErrorInterval(sums, kSingleErrorLevels);
      EXPECT_LT(one.gap_upper - one.gap_lower, hour.gap_upper - hour.gap_lower) << n << ' ' << from;
      ErrorLevels in_order = kOneLookErrorLevels;
      in_order.looks = Looks::kOneInOrder;
      const ErrorInterval hoeffding = *BinnedErrorInterval(sums, in_order);
      EXPECT_LE(hoeffding.gap_upper - hoeffding.gap,
                std::sqrt(std::log(160) / (2.0 * static_cast<double>(n))) + 1e-12);
    }
  }
}

// A sharp model that is 15 points too confident: V is four times what a calibrated model has. The
// fixed rate alone would give 6.3 points for the bins.
TEST(OneLookIntervalTest, OfASharpOverConfidentModelIsUsable) {
  const ReliabilitySums sums = Stream(1000, 0.9, -0.15, 5);
  const ErrorInterval one = *BinnedErrorInterval(sums, kOneLookErrorLevels);
  EXPECT_LT(one.gap_upper - one.gap, 0.06);
  EXPECT_LT(one.upper - one.estimate, 0.06);
}

TEST(OneLookIntervalTest, Edges) {
  EXPECT_FALSE(BinnedErrorInterval(ReliabilitySums(), kOneLookErrorLevels).has_value());
  ReliabilitySums sums;
  sums.Add(1, false);
  const ErrorInterval interval = *BinnedErrorInterval(sums, kOneLookErrorLevels);
  EXPECT_EQ(interval.lower, 0);
  EXPECT_EQ(interval.upper, 1);
  EXPECT_LT(interval.gap_lower, 0);
  EXPECT_EQ(interval.gap_upper, 1);
}

// All starting points one by one.
TEST(RecentErrorEvidenceTest, IsTheWeightedSumOverAllStartingPoints) {
  constexpr std::size_t kCount = 60;
  const std::vector<double> kappas{.7, .5, .35, .25, .17, .12, .085, .06, .04, .028, .02, .014};
  std::mt19937_64 rng(3);
  std::uniform_real_distribution<double> uniform(0, 1);
  std::vector<std::size_t> bins;
  std::vector<double> errors;
  std::vector<double> limits;
  RecentErrorEvidence evidence;
  for (std::size_t i = 0; i < kCount; ++i) {
    const double c = uniform(rng);
    bins.push_back(std::min<std::size_t>(14, static_cast<std::size_t>(15 * c)));
    errors.push_back(c - (uniform(rng) < 0.4 ? 1 : 0));
    limits.push_back(i < 30 ? 0.02 : 0.05);
    evidence.Add(bins[i], errors[i], limits[i]);
  }
  double expected = 0;
  for (int sign = 0; sign < 3; ++sign) {
    for (const double kappa : kappas) {
      for (std::size_t start = 0; start < kCount; ++start) {
        const double k = static_cast<double>(start) + 2;
        double product = 1 / (2.11 * k * std::pow(std::log(k), 2));
        for (std::size_t i = start; i < kCount; ++i) {
          double d = 0;
          double q = 0;
          for (std::size_t j = 0; j < i; ++j) {
            if (bins[j] != bins[i]) continue;
            const double decayed = std::pow(.999, static_cast<double>(i - 1 - j));
            d += errors[j] * decayed;
            q += errors[j] * errors[j] * decayed;
          }
          const double s = sign == 0 ? 1 : sign == 1 ? -1 : std::tanh(d / std::sqrt(q + 1));
          product *= (1 + kappa * s * errors[i]) * std::exp(-kappa * limits[i]);
        }
        expected += product * (sign == 2 ? 0.5 : 0.25) / 12;
      }
    }
  }
  EXPECT_NEAR(evidence.value(), expected, 1e-12 * expected);
}

TEST(RecentErrorEvidenceTest, StaysFiniteAndContinuesFromItsState) {
  RecentErrorEvidence evidence;
  EXPECT_EQ(evidence.value(), 0);
  for (int i = 0; i < 20000; ++i) evidence.Add(14, 1, 0);
  EXPECT_TRUE(std::isfinite(evidence.value()));
  EXPECT_GT(evidence.value(), 1e290);
  for (int i = 0; i < 200000; ++i) evidence.Add(14, 0, 1);
  EXPECT_GE(evidence.value(), 0);

  RecentErrorEvidence whole;
  RecentErrorEvidence restored;
  std::mt19937_64 rng(5);
  std::uniform_real_distribution<double> uniform(-1, 1);
  for (int i = 0; i < 500; ++i) {
    const double x = uniform(rng);
    whole.Add(static_cast<std::size_t>(i) % 15, x, 0.02);
    restored.Add(static_cast<std::size_t>(i) % 15, x, 0.02);
    if (i == 250) restored = RecentErrorEvidence(restored.state());
  }
  EXPECT_EQ(whole.state(), restored.state());
}

TEST(RecentErrorEvidenceTest, ReachesAThresholdWhenItsValueDoes) {
  std::mt19937_64 rng(7);
  std::uniform_real_distribution<double> uniform(-1, 1);
  for (const double threshold : {1.0, 80.0, 1e4}) {
    RecentErrorEvidence evidence;
    int reached = 0;
    for (int i = 0; i < 4000; ++i) {
      // Constant errors let the value grow by the largest factor.
      const double x = i % 400 < 30 ? 1 : uniform(rng);
      evidence.Add(i % 400 < 30 ? 14 : 3, x, i % 400 < 30 ? 0 : 0.5);
      const bool reaches = evidence.Reaches(threshold);
      EXPECT_EQ(reaches, evidence.value() >= threshold) << threshold << ' ' << i;
      reached += reaches ? 1 : 0;
    }
    EXPECT_GT(reached, 0);
    EXPECT_LT(reached, 4000);
  }
}

TEST(RecentErrorEvidenceTest, FindsAChangeThatTheAverageHides) {
  std::mt19937_64 rng(11);
  std::uniform_real_distribution<double> uniform(0, 1);
  RecentErrorEvidence evidence;
  ReliabilitySums sums;
  double largest = 0;
  for (int i = 0; i < 32000; ++i) {
    const double c = 0.8 + 0.2 * uniform(rng);
    const bool right = uniform(rng) < c - (i < 30000 ? 0 : 0.1);
    evidence.Add(sums.Add(c, right), c - (right ? 1 : 0), 0.02);
    if (i < 30000) largest = std::max(largest, evidence.value());
  }
  EXPECT_LT(largest, 2 / kIntervalAlpha);
  EXPECT_GT(evidence.value(), 2 / kIntervalAlpha);
  EXPECT_LT(BinnedErrorInterval(sums, kErrorLevels)->lower, 0.02);
}

}  // namespace
}  // namespace calibd
