// How often the interval of the binned error and the evidence of the recent error are ever wrong,
// if they are looked at after every prediction. Seeds are fixed; a bound is 3 standard deviations
// of the binomial share above the promised probability. The promise holds for every sequence and
// is therefore kept with room to spare: that the intervals are not wider than needed is tested
// with known widths in the unit tests, and by the delays below.
#include "calibd/core/error_interval.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <random>
#include <vector>

#include "error_streams.h"
#include "evidence_streams.h"

namespace calibd {
namespace {

using testing::ErrorBound;
using testing::ErrorKind;
using testing::ErrorStream;
using testing::Repeated;
using testing::TrueError;

constexpr double kAlpha = 0.05;
constexpr ErrorLevels kLevels{.bins = 3 * kAlpha / 8, .gap = kAlpha / 8};
constexpr double kRecentLevel = kAlpha / 2;
constexpr int kLength = 3000;

class ErrorIntervalCoverageTest : public ::testing::TestWithParam<double> {};

TEST_P(ErrorIntervalCoverageTest, HoldsTheErrorOfAnySequenceAtAllTimes) {
  const int streams = Repeated(1000);
  for (const ErrorKind kind : testing::kErrorKinds) {
    int wrong = 0;
    for (int i = 0; i < streams; ++i) {
      ErrorStream stream(kind, GetParam(), static_cast<std::uint64_t>(i) + 1, kLength);
      ReliabilitySums sums;
      TrueError truth;
      bool held = true;
      for (int t = 1; t <= kLength && held; ++t) {
        const ErrorStream::Prediction prediction = stream.Next();
        truth.Add(sums.Add(prediction.stated, prediction.happened), prediction.excess);
        // Neighbouring times are nearly the same look.
        if (t < 100 || t % 16 == 0) held = truth.IsIn(*BinnedErrorInterval(sums, kLevels));
      }
      wrong += held ? 0 : 1;
    }
    EXPECT_LE(static_cast<double>(wrong) / streams, ErrorBound(kLevels.total(), streams))
        << "kind " << static_cast<int>(kind);
  }
}
INSTANTIATE_TEST_SUITE_P(Classes, ErrorIntervalCoverageTest, ::testing::Values(2, 10, 1000),
                         ::testing::PrintToStringParamName());

// The interval of a file, in which each label may follow the earlier ones. With kFollowsLabels the
// predictions follow them too, and only the interval for this is promised.
class OneLookCoverageTest : public ::testing::TestWithParam<double> {};

TEST_P(OneLookCoverageTest, HoldsTheErrorOfAnySequence) {
  const int streams = Repeated(1000);
  for (const ErrorKind kind : testing::kErrorKinds) {
    for (const int n : {30, 92, 1000}) {
      ErrorLevels levels = kOneLookErrorLevels;
      if (kind == ErrorKind::kFollowsLabels) levels.looks = Looks::kOneInOrder;
      int wrong = 0;
      for (int i = 0; i < streams; ++i) {
        ErrorStream stream(kind, GetParam(), static_cast<std::uint64_t>(i) + 1, n);
        ReliabilitySums sums;
        TrueError truth;
        for (int t = 0; t < n; ++t) {
          const ErrorStream::Prediction prediction = stream.Next();
          truth.Add(sums.Add(prediction.stated, prediction.happened), prediction.excess);
        }
        wrong += truth.IsIn(*BinnedErrorInterval(sums, levels)) ? 0 : 1;
      }
      EXPECT_LE(static_cast<double>(wrong) / streams, ErrorBound(levels.total(), streams))
          << "kind " << static_cast<int>(kind) << " n " << n;
    }
  }
}
INSTANTIATE_TEST_SUITE_P(Classes, OneLookCoverageTest, ::testing::Values(2, 10, 1000),
                         ::testing::PrintToStringParamName());

// Predictions are fixed, and the truth of a row is chosen by the labels before it: twice the stated
// excess while the sum of the errors is positive, none while it is negative. It drives the sums
// away from 0 as far as labels can.
TEST(OneLookSequenceTest, HoldsWhenLabelsDependOnEachOther) {
  const int streams = Repeated(2000);
  for (const double alpha : {20.0, 6.0, 1.0}) {
    for (const int n : {50, 1000}) {
      int wrong = 0;
      for (int i = 0; i < streams; ++i) {
        std::mt19937_64 rng(static_cast<std::uint64_t>(i) + 1);
        std::uniform_real_distribution<double> uniform(0, 1);
        ReliabilitySums sums;
        TrueError truth;
        double drift = 0;
        for (int t = 0; t < n; ++t) {
          const double c = 0.5 + 0.5 * std::pow(uniform(rng), 1 / alpha);
          const double p = std::clamp(c - (drift > 0 ? 0.1 : -0.1), 0.0, 1.0);
          const bool happened = uniform(rng) < p;
          drift += c - (happened ? 1 : 0);
          truth.Add(sums.Add(c, happened), c - p);
        }
        wrong += truth.IsIn(*BinnedErrorInterval(sums, kOneLookErrorLevels)) ? 0 : 1;
      }
      EXPECT_LE(static_cast<double>(wrong) / streams,
                ErrorBound(kOneLookErrorLevels.total(), streams))
          << alpha << " n " << n;
    }
  }
}

// Predictions that are nearly certain, and too confident or too shy: V is many times what a
// calibrated model has, or far below it, so that the rate that is chosen by the predictions is
// poor.
TEST(OneLookSequenceTest, HoldsForSharpModelsThatAreFarOff) {
  const int streams = Repeated(1000);
  for (const double excess : {0.15, 0.4, -0.1}) {
    for (const int n : {40, 1000}) {
      for (const Looks looks : {Looks::kOne, Looks::kOneInOrder}) {
        ErrorLevels levels = kOneLookErrorLevels;
        levels.looks = looks;
        int wrong = 0;
        for (int i = 0; i < streams; ++i) {
          std::mt19937_64 rng(static_cast<std::uint64_t>(i) + 1);
          std::uniform_real_distribution<double> uniform(0, 1);
          ReliabilitySums sums;
          TrueError truth;
          for (int t = 0; t < n; ++t) {
            const double c = 0.8 + 0.2 * std::pow(uniform(rng), 0.1);
            const double p = std::clamp(c - excess, 0.0, 1.0);
            truth.Add(sums.Add(c, uniform(rng) < p), c - p);
          }
          wrong += truth.IsIn(*BinnedErrorInterval(sums, levels)) ? 0 : 1;
        }
        EXPECT_LE(static_cast<double>(wrong) / streams, ErrorBound(levels.total(), streams))
            << excess << " n " << n;
      }
    }
  }
}

// The bound would be worthless if no sequence came near it: a sum of equal errors, of which the
// variance is the largest, exceeds each side of the interval of the gap in up to half of its level.
TEST(OneLookSequenceTest, TheGapIsMissedAtMostAtItsLevelAndNotNever) {
  const int streams = Repeated(20000);
  constexpr int kRows = 40;
  // A level at which misses are frequent enough to be counted.
  constexpr ErrorLevels kLoose{.bins = 0.5, .gap = 0.5, .looks = Looks::kOne};
  int wrong = 0;
  std::mt19937_64 rng(3);
  std::bernoulli_distribution coin(0.5);
  for (int i = 0; i < streams; ++i) {
    ReliabilitySums sums;
    for (int t = 0; t < kRows; ++t) sums.Add(0.5, coin(rng));
    const ErrorInterval interval = *BinnedErrorInterval(sums, kLoose);
    wrong += interval.gap_lower > 0 || interval.gap_upper < 0 ? 1 : 0;
  }
  EXPECT_LE(wrong, 0.5 * streams);
  EXPECT_GE(wrong, 0.02 * streams);
}

TEST(ErrorAnswerTest, AboutALimitAreRarelyWrong) {
  const int streams = Repeated(2000);
  constexpr double kLimit = 0.02;
  int over = 0;
  int within = 0;
  for (int i = 0; i < streams; ++i) {
    const auto seed = static_cast<std::uint64_t>(i) + 1;
    for (const bool is_calibrated : {true, false}) {
      std::mt19937_64 rng(seed);
      std::uniform_real_distribution<double> uniform(0, 1);
      ReliabilitySums sums;
      RecentErrorEvidence recent;
      bool ever_over = false;
      bool ever_within = false;
      for (int t = 1; t <= kLength; ++t) {
        const double c = 0.5 + 0.46 * uniform(rng);
        // Two points above the limit, or calibrated.
        const bool happened = uniform(rng) < c - (is_calibrated ? 0 : 2 * kLimit);
        recent.Add(sums.Add(c, happened), c - (happened ? 1 : 0), kLimit);
        ever_over |= recent.value() >= 1 / kRecentLevel;
        if (t % 16 != 0) continue;
        const ErrorInterval interval = *BinnedErrorInterval(sums, kLevels);
        ever_over |= interval.lower > kLimit;
        ever_within |= interval.upper <= kLimit;
      }
      over += is_calibrated && ever_over ? 1 : 0;
      within += !is_calibrated && ever_within ? 1 : 0;
    }
  }
  EXPECT_LE(static_cast<double>(over) / streams, ErrorBound(kAlpha, streams));
  EXPECT_LE(static_cast<double>(within) / streams, ErrorBound(kAlpha, streams));
}

// The error is exactly at the limit, in either direction, in turns, or chosen by past labels.
TEST(RecentErrorTest, IsRarelyRaisedAtTheLimit) {
  const int streams = Repeated(400);
  constexpr double kLimit = 0.05;
  for (int kind = 0; kind < 4; ++kind) {
    int raised = 0;
    for (int i = 0; i < streams; ++i) {
      std::mt19937_64 rng(static_cast<std::uint64_t>(i) + 1);
      std::uniform_real_distribution<double> uniform(0, 1);
      RecentErrorEvidence recent;
      bool last = false;
      bool is_raised = false;
      for (int t = 0; t < kLength && !is_raised; ++t) {
        const double c = 0.1 + 0.8 * uniform(rng);
        const double sign = kind == 0   ? 1
                            : kind == 1 ? -1
                            : kind == 2 ? (t / 100 % 2 == 0 ? 1 : -1)
                                        : (last ? 1 : -1);
        last = uniform(rng) < c - sign * kLimit;
        recent.Add(UniformBinIndex(c, kReliabilityBinCount) - 1, c - (last ? 1 : 0), kLimit);
        is_raised = recent.value() >= 1 / kRecentLevel;
      }
      raised += is_raised ? 1 : 0;
    }
    EXPECT_LE(static_cast<double>(raised) / streams, ErrorBound(kRecentLevel, streams)) << kind;
  }
}

// The known median delays after a change at 30000 from calibrated to over-confident.
TEST(RecentErrorTest, FindsAChangeAsSoonAsTheReference) {
  struct Known {
    double shift;
    double median_delay;
  };
  constexpr int kStreams = 60;
  constexpr int kBefore = 30000;
  for (const Known& known : {Known{0.06, 1459}, Known{0.10, 563}}) {
    std::vector<double> delays;
    for (int i = 0; i < kStreams; ++i) {
      std::mt19937_64 rng(static_cast<std::uint64_t>(i) + 1);
      std::gamma_distribution<double> numerator(20, 1);
      std::gamma_distribution<double> denominator(1, 1);
      std::uniform_real_distribution<double> uniform(0, 1);
      RecentErrorEvidence recent;
      int t = 0;
      for (; t < 4 * kBefore && (t < kBefore || recent.value() < 1 / kRecentLevel); ++t) {
        const double a = numerator(rng);
        const double c = std::max(0.5, a / (a + denominator(rng)));
        const bool right = uniform(rng) < c - (t < kBefore ? 0 : known.shift);
        recent.Add(UniformBinIndex(c, kReliabilityBinCount) - 1, c - (right ? 1 : 0), 0.02);
      }
      delays.push_back(t - kBefore);
    }
    std::nth_element(delays.begin(), delays.begin() + kStreams / 2, delays.end());
    // The standard error of the median of 60 delays, whose spread is about a third of the median.
    const double error = 1.25 * known.median_delay / 3 / std::sqrt(kStreams);
    EXPECT_LE(delays[kStreams / 2], 1.05 * known.median_delay + 3 * error) << known.shift;
    RecordProperty("median_delay", static_cast<int>(delays[kStreams / 2]));
    std::cout << known.shift << " " << delays[kStreams / 2] << "\n";
  }
}

}  // namespace
}  // namespace calibd
