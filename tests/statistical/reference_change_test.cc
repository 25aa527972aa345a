#include "calibd/core/reference_change.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <functional>
#include <random>
#include <vector>

#include "statistical/error_streams.h"

namespace calibd::testing {
namespace {

constexpr double kAlpha = .05;
constexpr std::int64_t kReference = 3000;
constexpr std::int64_t kChange = 5000;
constexpr std::int64_t kLevelRows = 9000;
constexpr int kStreams = 400;

// How often an event that has the stated probability c happens.
using TrueShare = std::function<double(double)>;
TrueShare Less(double points) {
  return [points](double c) { return std::max(0., c - points); };
}
// The odds of an error are multiplied.
TrueShare WorseBy(double factor) {
  return [factor](double c) { return c / (c + factor * (1 - c)); };
}

struct Stream {
  // Stated probabilities Beta(a, 1), before and after the change.
  double a = 6;
  double later_a = 6;
  TrueShare before;
  TrueShare after;
};

// The rows after which a change was found; 0 without one.
std::int64_t FoundAt(const Stream& stream, std::uint64_t seed, std::int64_t length) {
  std::mt19937_64 rng(seed);
  std::uniform_real_distribution<double> uniform;
  ReferenceChange change({.reference_rows = kReference,
                          .significance_level = kAlpha,
                          .seed = 77 * seed + 1,
                          .first_observation = 1});
  for (std::int64_t row = 1; row <= length && !change.changed(); ++row) {
    const bool is_later = row > kChange;
    const double c = std::pow(uniform(rng), 1 / (is_later ? stream.later_a : stream.a));
    change.Add(c, uniform(rng) >= (is_later ? stream.after : stream.before)(c));
  }
  return change.state().changed_at;
}

double ShareFound(const Stream& stream, int streams, std::int64_t length) {
  int found = 0;
  for (int i = 0; i < streams; ++i) {
    found += FoundAt(stream, static_cast<std::uint64_t>(1000 + i), length) > 0 ? 1 : 0;
  }
  return static_cast<double>(found) / streams;
}

TEST(ReferenceChangeLevelTest, AModelThatStaysAsItIsHasNotChanged) {
  for (const TrueShare& share : {Less(0), Less(.06), WorseBy(2), WorseBy(.5)}) {
    const double found = ShareFound({.before = share, .after = share}, kStreams, kLevelRows);
    EXPECT_LE(found, ErrorBound(kAlpha, kStreams));
  }
}

TEST(ReferenceChangeLevelTest, HarderInputsAreNoChange) {
  for (const TrueShare& share : {Less(0), WorseBy(2)}) {
    for (const double later : {2., 12.}) {
      const double found =
          ShareFound({.later_a = later, .before = share, .after = share}, kStreams, kLevelRows);
      EXPECT_LE(found, ErrorBound(kAlpha, kStreams));
    }
  }
}

// The delays are those of an independent simulation of 60 and 40 streams, whose medians vary by
// about a tenth.
TEST(ReferenceChangePowerTest, AChangeIsFoundInBothDirections) {
  struct Case {
    const char* name;
    Stream stream;
    double delay;
  };
  for (const Case& one : {Case{"4 -> 12", {.before = Less(.04), .after = Less(.12)}, 884},
                          Case{"0 -> 6", {.before = Less(0), .after = Less(.06)}, 1037},
                          Case{"8 -> 0", {.before = Less(.08), .after = Less(0)}, 987}}) {
    SCOPED_TRACE(one.name);
    std::vector<std::int64_t> delays;
    int early = 0;
    for (int i = 0; i < kStreams; ++i) {
      const std::int64_t at = FoundAt(one.stream, static_cast<std::uint64_t>(5000 + i), 15000);
      if (at > 0 && at <= kChange) {
        ++early;
      } else {
        delays.push_back(at == 0 ? 10001 : at - kChange);
      }
    }
    std::ranges::sort(delays);
    EXPECT_LE(static_cast<double>(early) / kStreams, ErrorBound(kAlpha, kStreams));
    EXPECT_NEAR(static_cast<double>(delays[delays.size() / 2]), one.delay, .25 * one.delay);
  }
}

}  // namespace
}  // namespace calibd::testing
