#include "calibd/core/dated_change.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <functional>
#include <random>

#include "statistical/error_streams.h"

namespace calibd::testing {
namespace {

constexpr double kAlpha = .05;
constexpr int kStreams = 60;
// Rows between two looks.
constexpr int kLook = 500;

// Stated probabilities Beta(a, 1) that exceed the true ones by shift(row).
class Deviations {
 public:
  Deviations(double a, std::function<double(int)> shift, std::uint64_t seed)
      : a_(a), shift_(std::move(shift)), rng_(seed) {}

  double Next() {
    const double c = std::pow(uniform_(rng_), 1 / a_);
    const double p = std::clamp(c - shift_(row_++), 0.0, 1.0);
    return c - (uniform_(rng_) < p ? 1 : 0);
  }

 private:
  double a_;
  std::function<double(int)> shift_;
  std::mt19937_64 rng_;
  std::uniform_real_distribution<double> uniform_;
  int row_ = 0;
};

struct Found {
  // The share of streams in which a change was said, by the number of rows looked at.
  int said = 0;
  // Of these, how many first ranges hold the change, and their mean width.
  int held = 0;
  double width = 0;
  // Streams in which a change was said before it happened.
  int early = 0;
};

Found FirstFound(double a, int change, int end, double before, double after) {
  Found found;
  for (int stream = 0; stream < kStreams; ++stream) {
    DeviationBlocks blocks;
    Deviations deviations(
        a, [&](int row) { return row < change ? before : after; },
        static_cast<std::uint64_t>(1000 + stream));
    for (int row = 1; row <= end; ++row) {
      blocks.Add(deviations.Next());
      if (row % kLook != 0) continue;
      const auto dated = blocks.Find(kAlpha);
      if (!dated.has_value()) continue;
      if (row <= change) {
        ++found.early;
        break;
      }
      ++found.said;
      found.held += dated->from <= change && change <= dated->to ? 1 : 0;
      found.width += static_cast<double>(dated->to - dated->from);
      break;
    }
  }
  found.width /= std::max(1, found.said);
  return found;
}

// The smallest share of streams that must hold if each does with this probability: 3 standard
// errors below it.
double AtLeast(double probability, int streams) {
  return probability - 3 * std::sqrt(probability * (1 - probability) / streams);
}

TEST(DatedChangeTest, ASuddenChangeIsFoundAndItsRangeHoldsIt) {
  struct Case {
    double a;
    int change;
    int end;
    double before;
    double after;
  };
  // From 4 to 12 points, from calibrated to 10 points, a recovery, and of vaguer predictions.
  for (const Case& one : {Case{20, 5000, 8000, .04, .12}, Case{20, 20000, 22500, 0, .10},
                          Case{20, 6000, 7500, .10, 0}, Case{6, 5000, 8000, .04, -.04}}) {
    const Found found = FirstFound(one.a, one.change, one.end, one.before, one.after);
    EXPECT_GE(found.said, AtLeast(.95, kStreams) * kStreams) << one.before << " " << one.after;
    EXPECT_GE(found.held, AtLeast(.95, found.said) * found.said) << one.before << " " << one.after;
    EXPECT_EQ(found.early, 0);
    EXPECT_LE(found.width, 1100) << one.before << " " << one.after;
  }
}

TEST(DatedChangeTest, WithoutAChangeNoneIsSaid) {
  int said = 0;
  for (const double a : {20.0, 3.0}) {
    for (const double shift : {0.0, .04}) {
      const Found found = FirstFound(a, 20000, 20000, shift, shift);
      said += found.early;
    }
  }
  // The chance is at most alpha for each stream.
  EXPECT_LE(said, ErrorBound(kAlpha, 4 * kStreams) * 4 * kStreams);
}

TEST(DatedChangeTest, ASlowDriftHasARangeWithinIt) {
  int held = 0;
  for (int stream = 0; stream < 12; ++stream) {
    DeviationBlocks blocks;
    Deviations deviations(
        20, [](int row) { return .08 * std::clamp((row - 3000) / 6000.0, 0.0, 1.0); },
        static_cast<std::uint64_t>(stream));
    for (int row = 0; row < 12000; ++row) blocks.Add(deviations.Next());
    const auto dated = blocks.Find(kAlpha);
    ASSERT_TRUE(dated.has_value());
    held += dated->to > 3000 && dated->from < 9000 ? 1 : 0;
  }
  EXPECT_GE(held, 11);
}

}  // namespace
}  // namespace calibd::testing
