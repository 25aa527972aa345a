#include "calibd/core/newest_stretch.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <iterator>
#include <map>
#include <optional>
#include <random>
#include <utility>
#include <vector>

namespace calibd {
namespace {

TEST(NewestStretchTest, BeginsAtTheNewestMultipleThatIsOldEnough) {
  for (std::int64_t count = 0; count <= 12000; ++count) {
    std::optional<std::int64_t> expected;
    for (std::int64_t start = 0; start <= count - 1000; start += 1024) expected = start;
    ASSERT_EQ(NewestStart(count), expected) << count;
    if (!expected.has_value()) continue;
    EXPECT_GE(count - *expected, 1000);
    EXPECT_LE(count - *expected, 2023);
  }
  EXPECT_EQ(*NewestStart(std::int64_t{1} << 53) % kStretchSpacing, 0);
}

TEST(RecoveryLevelTest, CountsTheMultiplesFromTheAlarmOn) {
  for (const std::int64_t alarm : {0, 1, 1023, 1024, 1025, 5000, 20480}) {
    double total = 0;
    std::int64_t j = 0;
    for (std::int64_t start = 0; start < 3'000'000; start += 1024) {
      if (start < alarm) continue;
      ++j;
      const double level = 0.05 / static_cast<double>(j * (j + 1));
      ASSERT_DOUBLE_EQ(RecoveryLevel(alarm, start), level) << alarm << " " << start;
      total += level;
    }
    EXPECT_LT(total, 0.05);
    EXPECT_GT(total, 0.0499);
  }
}

// From the definition, by all starts.
TEST(RecoveredSinceTest, IsTheOldestOfTheNewestStartsWithinTheLimit) {
  std::mt19937_64 rng(1);
  std::uniform_real_distribution<double> uniform(0, 1);
  constexpr double kLimit = 0.3;
  int recovered = 0;
  int withdrawn = 0;
  int longer = 0;
  for (int round = 0; round < 2000; ++round) {
    std::vector<std::int64_t> starts;
    for (std::int64_t s = 1024; s <= 20 * 1024; s += 1024) {
      if (uniform(rng) < 0.5) starts.push_back(s);
    }
    const auto count = static_cast<std::int64_t>(20 * 1024 + 2000 * uniform(rng));
    const auto alarm = static_cast<std::int64_t>(12000 * uniform(rng));
    std::map<std::int64_t, ErrorEnds> ends;
    for (const std::int64_t start : starts) {
      const double upper = uniform(rng);
      ends[start] = {.lower = upper * uniform(rng), .upper = upper};
    }
    // Of all starts that are kept, in words: the newest one within the limit, and those before it
    // as far as all are; none of it if a later one is over the limit.
    std::vector<std::int64_t> kept;
    std::ranges::copy_if(starts, std::back_inserter(kept),
                         [&](std::int64_t s) { return s >= alarm && count - s >= 1000; });
    const auto is_within = [&](std::int64_t s) { return ends.at(s).upper <= kLimit; };
    const auto is_over = [&](std::int64_t s) { return ends.at(s).lower > kLimit; };
    std::optional<std::int64_t> expected;
    std::ptrdiff_t newest = -1;
    for (std::ptrdiff_t i = 0; i < std::ssize(kept); ++i) {
      if (is_within(kept[static_cast<std::size_t>(i)])) newest = i;
    }
    if (newest >= 0 && std::none_of(kept.begin() + newest, kept.end(), is_over)) {
      std::ptrdiff_t first = newest;
      while (first > 0 && is_within(kept[static_cast<std::size_t>(first - 1)])) --first;
      expected = kept[static_cast<std::size_t>(first)];
      longer += first < newest ? 1 : 0;
    } else if (newest >= 0) {
      ++withdrawn;
    }
    const auto found =
        RecoveredSince(starts, count, alarm, kLimit, [&](std::int64_t start, double level) {
          EXPECT_DOUBLE_EQ(level, RecoveryLevel(alarm, start));
          return ends[start];
        });
    ASSERT_EQ(found, expected) << round;
    recovered += found.has_value() ? 1 : 0;
  }
  EXPECT_GT(recovered, 200);
  EXPECT_GT(withdrawn, 200);
  EXPECT_GT(longer, 50);
}

TEST(RecoveredSinceTest, NeedsAStart) {
  const auto within = [](std::int64_t, double) { return ErrorEnds{.lower = 0, .upper = 0}; };
  EXPECT_FALSE(RecoveredSince({}, 100000, 5, 0.02, within).has_value());
  const std::array<std::int64_t, 2> starts{1024, 2048};
  EXPECT_FALSE(RecoveredSince(starts, 2023, 5, 0.02, within).has_value()) << "999 observations";
  EXPECT_EQ(RecoveredSince(starts, 2024, 5, 0.02, within), 1024);
  EXPECT_EQ(RecoveredSince(starts, 4000, 1025, 0.02, within), 2048);
  EXPECT_FALSE(RecoveredSince(starts, 4000, 2049, 0.02, within).has_value());
}

// From the definition, by all pairs of starts.
TEST(OverAgainSinceTest, FollowsAStretchThatHadRecovered) {
  std::mt19937_64 rng(2);
  std::uniform_real_distribution<double> uniform(0, 1);
  constexpr double kLimit = 0.3;
  int found_some = 0;
  int never_recovered = 0;
  for (int round = 0; round < 3000; ++round) {
    std::vector<std::int64_t> starts;
    for (std::int64_t s = 1024; s <= 9 * 1024; s += 1024) {
      if (uniform(rng) < 0.7) starts.push_back(s);
    }
    const auto count = static_cast<std::int64_t>(9 * 1024 + 2000 * uniform(rng));
    const auto alarm = static_cast<std::int64_t>(5000 * uniform(rng));
    std::map<std::pair<std::int64_t, std::int64_t>, ErrorEnds> ends;
    for (const std::int64_t start : starts) {
      for (const std::int64_t end : starts) {
        ends[{start, end}] = {.lower = 0, .upper = 0.2 + uniform(rng)};
      }
      const double lower = 0.6 * uniform(rng);
      ends[{start, count}] = {.lower = lower, .upper = std::max(lower, 0.25 + uniform(rng))};
    }
    std::optional<std::int64_t> expected;
    bool is_over = false;
    for (const std::int64_t start : starts) {
      if (start < alarm || count - start < 1000) continue;
      // No later stretch, and not this one, is within the limit.
      const bool is_within = std::ranges::any_of(starts, [&](std::int64_t s) {
        return s >= start && count - s >= 1000 && ends[{s, count}].upper <= kLimit;
      });
      const double lower = ends[{start, count}].lower;
      if (is_within || lower <= kLimit) continue;
      is_over = true;
      const bool recovered = std::ranges::any_of(starts, [&](std::int64_t s) {
        return s >= alarm && start - s >= 1000 && ends[{s, start}].upper <= kLimit;
      });
      if (recovered && (!expected.has_value() || lower > ends[{*expected, count}].lower)) {
        expected = start;
      }
    }
    const auto found = OverAgainSince(starts, count, alarm, kLimit,
                                      [&](std::int64_t start, std::int64_t end, double level) {
                                        EXPECT_DOUBLE_EQ(level, RecoveryLevel(alarm, start));
                                        return ends.at({start, end});
                                      });
    ASSERT_EQ(found, expected) << round;
    found_some += found.has_value() ? 1 : 0;
    never_recovered += is_over && !expected.has_value() ? 1 : 0;
  }
  EXPECT_GT(found_some, 200);
  EXPECT_GT(never_recovered, 200);
}

// Upper end and half the width of the gap, in percentage points, of calibrated predictions: means
// of 20 streams that were simulated with another program. Confidences are Beta(20, 1), Beta(6, 1),
// and uniform on [.5, .95].
TEST(NewestStretchTest, HasTheKnownWidths) {
  struct Known {
    double shape;
    std::array<double, 4> upper;
    std::array<double, 4> gap;
    // The upper end of the eighth start after an alarm.
    std::optional<std::array<double, 3>> of_eighth;
  };
  constexpr std::array kCounts{1000, 2000, 5000, 10000};
  for (const Known& known :
       {Known{20, {4.1, 2.7, 1.8, 1.3}, {2.7, 1.8, 1.1, 0.8}, std::array{5.1, 3.4, 2.1}},
        Known{6, {8.1, 5.6, 3.4, 2.4}, {4.0, 2.8, 1.8, 1.3}, std::nullopt},
        Known{0, {9.9, 7.0, 4.3, 3.0}, {5.2, 3.6, 2.3, 1.7}, std::array{11.4, 8.0, 4.8}}}) {
    std::array<double, 4> upper{};
    std::array<double, 4> gap{};
    std::array<double, 4> of_eighth{};
    constexpr int kStreams = 20;
    for (int stream = 0; stream < kStreams; ++stream) {
      std::mt19937_64 rng(static_cast<std::uint64_t>(stream) + 1);
      std::uniform_real_distribution<double> uniform(0, 1);
      ReliabilitySums sums;
      std::size_t at = 0;
      for (int n = 1; n <= kCounts.back(); ++n) {
        // Beta(a, 1) is the power 1 / a of a uniform variable.
        const double u = uniform(rng);
        const double c =
            known.shape == 0 ? 0.5 + 0.45 * u : std::max(0.1, std::pow(u, 1 / known.shape));
        sums.Add(c, uniform(rng) < c);
        if (n != kCounts[at]) continue;
        const ErrorInterval interval = *BinnedErrorInterval(sums, kSingleErrorLevels);
        upper[at] += 100 * interval.upper / kStreams;
        gap[at] += 50 * (interval.gap_upper - interval.gap_lower) / kStreams;
        const double level = RecoveryLevel(1, std::int64_t{8} * 1024);
        of_eighth[at] += 100 * BinnedErrorInterval(sums, RecoveryLevels(level))->upper / kStreams;
        ++at;
      }
    }
    // The known values have one decimal, and means of 20 streams scatter by some 2 %.
    for (std::size_t i = 0; i < kCounts.size(); ++i) {
      EXPECT_NEAR(upper[i], known.upper[i], 0.05 + 0.04 * known.upper[i]) << known.shape;
      EXPECT_NEAR(gap[i], known.gap[i], 0.05 + 0.03 * known.gap[i]) << known.shape;
      if (!known.of_eighth.has_value() || i == 3) continue;
      EXPECT_NEAR(of_eighth[i], (*known.of_eighth)[i], 0.05 + 0.04 * (*known.of_eighth)[i]);
    }
  }
}

}  // namespace
}  // namespace calibd
