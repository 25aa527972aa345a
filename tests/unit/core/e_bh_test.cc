#include "calibd/core/e_bh.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <limits>
#include <random>
#include <vector>

namespace calibd {
namespace {

std::size_t Count(const std::vector<bool>& rejected) {
  return static_cast<std::size_t>(std::count(rejected.begin(), rejected.end(), true));
}

// The definition: the largest set whose members all have e >= K / (alpha |set|).
std::size_t LargestSelfConsistentSet(const std::vector<double>& log10_e, double alpha) {
  std::size_t largest = 0;
  for (std::size_t k = 1; k <= log10_e.size(); ++k) {
    const double needed =
        std::log10(static_cast<double>(log10_e.size()) / (alpha * static_cast<double>(k)));
    const auto enough = static_cast<std::size_t>(
        std::count_if(log10_e.begin(), log10_e.end(), [needed](double e) { return e >= needed; }));
    if (enough >= k) largest = k;
  }
  return largest;
}

TEST(EbhTest, WithOneHypothesisIsTheThresholdOfOne) {
  EXPECT_EQ(RejectedByEbh(std::vector{1.302}, 0.05), std::vector{true});
  EXPECT_EQ(RejectedByEbh(std::vector{1.300}, 0.05), std::vector{false});
}

TEST(EbhTest, ManyRejectionsLowerTheThreshold) {
  // e = 25, 25, 25, 1 for four hypotheses: thresholds at .05 are 80, 40, 26.7, 20; at .06 66.7,
  // 33.3, 22.2.
  const std::vector<double> e{std::log10(25), 0, std::log10(25), std::log10(25)};
  EXPECT_EQ(RejectedByEbh(e, 0.05), (std::vector{false, false, false, false}));
  EXPECT_EQ(RejectedByEbh(e, 0.06), (std::vector{true, false, true, true}));
}

TEST(EbhTest, Edges) {
  EXPECT_TRUE(RejectedByEbh({}, 0.05).empty());
  const double infinity = std::numeric_limits<double>::infinity();
  EXPECT_EQ(RejectedByEbh(std::vector{-infinity, infinity, 1e6}, 1e-9),
            (std::vector{false, true, true}));
}

TEST(EbhTest, IsTheLargestSelfConsistentSetInAnyOrder) {
  std::mt19937 random(7);
  std::normal_distribution<double> normal(0.5, 1);
  for (int round = 0; round < 300; ++round) {
    std::vector<double> e(1 + random() % 20);
    std::generate(e.begin(), e.end(), [&] { return std::round(4 * normal(random)) / 4; });
    const double alpha = round % 2 == 0 ? 0.05 : 0.2;
    const std::vector<bool> rejected = RejectedByEbh(e, alpha);
    ASSERT_EQ(Count(rejected), LargestSelfConsistentSet(e, alpha));
    for (std::size_t i = 0; i < e.size(); ++i) {
      for (std::size_t j = 0; j < e.size(); ++j) {
        ASSERT_TRUE(!rejected[i] || rejected[j] || e[j] < e[i]);
      }
    }
    std::vector<double> reversed(e.rbegin(), e.rend());
    std::vector<bool> of_reversed = RejectedByEbh(reversed, alpha);
    std::reverse(of_reversed.begin(), of_reversed.end());
    ASSERT_EQ(of_reversed, rejected);
  }
}

}  // namespace
}  // namespace calibd
