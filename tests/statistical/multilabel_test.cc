// How often the answers about several labels are ever wrong, for labels that are independent,
// partly shared or equal, if they are looked at again and again. Seeds are fixed; a bound is 3
// standard deviations of the binomial share above the promised probability.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <random>
#include <vector>

#include "calibd/core/e_bh.h"
#include "calibd/core/label_errors.h"
#include "calibd/core/label_evidence.h"
#include "evidence_streams.h"

namespace calibd {
namespace {

using testing::Repeated;

constexpr double kAlpha = 0.05;
constexpr std::size_t kLabels = 10;
constexpr int kRows = 2000;
constexpr ErrorLevels kLevels{.bins = 0.75 * kAlpha, .gap = 0.25 * kAlpha};

double Bound(double alpha, int streams) {
  return alpha + 3 * std::sqrt(alpha * (1 - alpha) / streams);
}

// Draws rows of calibrated labels. share: the share of the labels whose truth, for equal
// probabilities, is that of the first label.
class LabelStream {
 public:
  LabelStream(double share, std::uint64_t seed) : share_(share), rng_(seed) {}

  void Next() {
    const double common = uniform_(rng_);
    const double luck = uniform_(rng_);
    for (std::size_t k = 0; k < kLabels; ++k) {
      const bool shared = static_cast<double>(k) < share_ * kLabels;
      probabilities[k] = shared ? common : uniform_(rng_);
      truths[k] = (shared ? luck : uniform_(rng_)) < probabilities[k] ? 1 : 0;
    }
  }
  [[nodiscard]] MultilabelBatch view() const { return {probabilities, truths, kLabels}; }

  std::vector<double> probabilities = std::vector<double>(kLabels);
  std::vector<std::int8_t> truths = std::vector<std::int8_t>(kLabels);

 private:
  double share_;
  std::mt19937_64 rng_;
  std::uniform_real_distribution<double> uniform_{0, 1};
};

class MultilabelLevelTest : public ::testing::TestWithParam<double> {};

TEST_P(MultilabelLevelTest, NoAnswerIsEverWrongMoreOftenThanPromised) {
  const int streams = Repeated(400);
  int evidence_alarms = 0;
  int any_rejected = 0;
  int all_missed = 0;
  int label_missed = 0;
  int missed_if_independent = 0;
  for (int i = 0; i < streams; ++i) {
    LabelStream stream(GetParam(), static_cast<std::uint64_t>(i) + 1);
    LabelEvidence evidence(kLabels, kDefaultTolerance);
    LabelErrors errors(kLabels);
    const LabelErrorLevels levels(kLevels, kLabels);
    double independent_square_sum = 0;
    bool rejected = false;
    bool of_all = false;
    bool of_label = false;
    bool wrong = false;
    for (int t = 1; t <= kRows; ++t) {
      stream.Next();
      evidence.Add(stream.view());
      errors.Add(stream.view());
      for (std::size_t k = 0; k < kLabels; ++k) {
        const double x = stream.probabilities[k] - stream.truths[k];
        independent_square_sum += x * x / (kLabels * kLabels);
      }
      if (t % 50 != 0) continue;
      const std::vector<bool> labels = RejectedByEbh(evidence.Read().label_log10_e_values, kAlpha);
      rejected |= std::ranges::count(labels, true) > 0;
      of_all |= errors.IntervalOfAll(levels.of_all)->lower > 0;
      for (std::size_t k = 0; k < kLabels; ++k) {
        of_label |= errors.IntervalOf(k, levels.of_each)->lower > 0;
      }
      LabelErrors as_independent = errors;
      as_independent.row_square_sum = independent_square_sum;
      wrong |= as_independent.IntervalOfAll(levels.of_all)->lower > 0;
    }
    evidence_alarms += evidence.Read().maximum.log_value >= -std::log(kAlpha) ? 1 : 0;
    any_rejected += rejected ? 1 : 0;
    all_missed += of_all ? 1 : 0;
    label_missed += of_label ? 1 : 0;
    missed_if_independent += wrong ? 1 : 0;
  }
  const auto share = [&](int count) { return static_cast<double>(count) / streams; };
  EXPECT_LE(share(evidence_alarms), Bound(kAlpha, streams));
  // If no label deviates, the share of false rejections is the probability of any.
  EXPECT_LE(share(any_rejected), Bound(kAlpha, streams));
  EXPECT_LE(share(all_missed), Bound(kAlpha / 2, streams));
  EXPECT_LE(share(label_missed), Bound(kAlpha / 2, streams));
  if (GetParam() == 1) {
    // The test would notice a sum of squares that takes the labels of a row as independent.
    EXPECT_GT(share(missed_if_independent), 0.5);
  }
}
// One look at a file of calibrated labels, which may be equal: the gap is 0, and so is the error.
TEST_P(MultilabelLevelTest, OneLookIsWrongAtMostAtItsLevel) {
  const int files = Repeated(1000);
  constexpr int kFileRows = 200;
  const LabelErrorLevels levels(kOneLookErrorLevels, kLabels);
  int wrong = 0;
  for (int i = 0; i < files; ++i) {
    LabelStream stream(GetParam(), static_cast<std::uint64_t>(i) + 1);
    LabelErrors errors(kLabels);
    for (int t = 0; t < kFileRows; ++t) {
      stream.Next();
      errors.Add(stream.view());
    }
    const auto misses = [](const ErrorInterval& interval) {
      return interval.lower > 0 || interval.gap_lower > 0 || interval.gap_upper < 0;
    };
    bool misses_any = misses(*errors.IntervalOfAll(levels.of_all));
    for (std::size_t k = 0; k < kLabels; ++k) {
      misses_any |= misses(*errors.IntervalOf(k, levels.of_each));
    }
    wrong += misses_any ? 1 : 0;
  }
  EXPECT_LE(static_cast<double>(wrong) / files, Bound(kAlpha, files));
}
INSTANTIATE_TEST_SUITE_P(SharedLabels, MultilabelLevelTest, ::testing::Values(0, 0.7, 1));

TEST(MultilabelPowerTest, ADeviatingLabelIsNamedAndNoOtherIs) {
  const int streams = Repeated(40);
  int named = 0;
  int others = 0;
  for (int i = 0; i < streams; ++i) {
    LabelStream stream(0.5, static_cast<std::uint64_t>(i) + 1);
    std::mt19937_64 rng(static_cast<std::uint64_t>(i));
    LabelEvidence evidence(kLabels, kDefaultTolerance);
    for (int t = 0; t < kRows; ++t) {
      stream.Next();
      // Label 7 holds 10 points less often than stated.
      if (std::uniform_real_distribution<double>(0, 1)(rng) < 0.2) stream.truths[7] = 0;
      evidence.Add(stream.view());
    }
    const std::vector<bool> rejected = RejectedByEbh(evidence.Read().label_log10_e_values, kAlpha);
    named += rejected[7] ? 1 : 0;
    others += std::ranges::count(rejected, true) > (rejected[7] ? 1 : 0) ? 1 : 0;
  }
  EXPECT_GE(named, streams * 9 / 10);
  EXPECT_LE(static_cast<double>(others) / streams, Bound(kAlpha, streams));
}

}  // namespace
}  // namespace calibd
