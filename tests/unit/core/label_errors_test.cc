#include "calibd/core/label_errors.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <cstdint>
#include <limits>
#include <random>
#include <vector>

namespace calibd {
namespace {

using ::testing::HasSubstr;

constexpr ErrorLevels kLabelLevels{.bins = 0.03, .gap = 0.01};

struct Rows {
  std::vector<double> probabilities;
  std::vector<std::int8_t> truths;
  std::size_t label_count = 0;

  [[nodiscard]] MultilabelBatch view() const { return {probabilities, truths, label_count}; }
};

// The truths are 10 points less frequent than stated. equal: all labels of a row are the same.
Rows DrawRows(std::size_t label_count, std::size_t rows, bool equal, double missing) {
  std::mt19937_64 rng(7);
  std::uniform_real_distribution<double> uniform(0, 1);
  Rows set{.probabilities = {}, .truths = {}, .label_count = label_count};
  for (std::size_t i = 0; i < rows; ++i) {
    for (std::size_t k = 0; k < label_count; ++k) {
      if (equal && k > 0) {
        set.probabilities.push_back(set.probabilities.back());
        set.truths.push_back(set.truths.back());
        continue;
      }
      const double g = uniform(rng);
      set.probabilities.push_back(g);
      set.truths.push_back(uniform(rng) < missing ? kMissingTruth
                                                  : std::int8_t{uniform(rng) < g - 0.1});
    }
  }
  return set;
}

void ExpectSameInterval(const ErrorInterval& a, const ErrorInterval& b) {
  EXPECT_NEAR(a.estimate, b.estimate, 1e-12);
  EXPECT_NEAR(a.lower, b.lower, 1e-12);
  EXPECT_NEAR(a.upper, b.upper, 1e-12);
  EXPECT_NEAR(a.gap, b.gap, 1e-12);
  EXPECT_NEAR(a.gap_lower, b.gap_lower, 1e-12);
  EXPECT_NEAR(a.gap_upper, b.gap_upper, 1e-12);
}

TEST(LabelErrorsTest, OneLabelIsABinaryModel) {
  const Rows set = DrawRows(1, 2000, false, 0);
  LabelErrors errors(1);
  errors.Add(set.view());
  ExpectSameInterval(*errors.IntervalOfAll(kLabelLevels),
                     *BinnedErrorInterval(errors.labels[0], kLabelLevels));
  EXPECT_GT(errors.IntervalOfAll(kLabelLevels)->gap_lower, 0.02);
}

TEST(LabelErrorsTest, EqualLabelsTellNoMoreThanOne) {
  const Rows set = DrawRows(8, 2000, true, 0);
  LabelErrors errors(8);
  errors.Add(set.view());
  ExpectSameInterval(*errors.IntervalOfAll(kLabelLevels), *errors.IntervalOf(3, kLabelLevels));
}

TEST(LabelErrorsTest, TheIntervalIsThatOfTheSumsOfRows) {
  const Rows set = DrawRows(5, 1500, false, 0.3);
  LabelErrors errors(5);
  errors.Add(set.view());
  // These are the formulas of the header.
  std::vector<WeightedBin> bins(kReliabilityBinCount);
  double v = 0;
  double known = 0;
  for (std::size_t i = 0; i < 1500; ++i) {
    double row = 0;
    for (std::size_t k = 0; k < 5; ++k) {
      const double c = set.probabilities[i * 5 + k];
      const std::int8_t r = set.truths[i * 5 + k];
      if (r == kMissingTruth) continue;
      WeightedBin& bin = bins[static_cast<std::size_t>(std::ceil(15 * c)) - 1];
      bin.count += 0.2;
      bin.stated += c / 5;
      bin.deviation += (c - r) / 5;
      row += std::abs(c - r) / 5;
      known += 1;
    }
    v += row * row;
  }
  EXPECT_NEAR(errors.row_square_sum, v, 1e-9);
  EXPECT_EQ(static_cast<double>(errors.Totals().sums.Total().count), known);
  const ErrorInterval all = *errors.IntervalOfAll(kLabelLevels);
  ExpectSameInterval(all, *BinnedErrorInterval(bins, v, kLabelLevels));
  // Missing truths do not dilute the error.
  EXPECT_NEAR(all.gap, 0.1, 0.02);
  EXPECT_GT(all.gap_lower, 0.05);
}

// Whether labels are equal or independent, the interval of a file is never wider than that of a
// monitor, which has half of the level for it.
TEST(LabelErrorsTest, OneLookIsNarrower) {
  for (const bool equal : {false, true}) {
    for (const std::size_t rows : {std::size_t{100}, std::size_t{2000}}) {
      const Rows set = DrawRows(8, rows, equal, 0);
      LabelErrors errors(8);
      errors.Add(set.view());
      const ErrorInterval one = *errors.IntervalOfAll(kOneLookErrorLevels);
      const ErrorInterval all = *errors.IntervalOfAll(kSingleErrorLevels.SharedBy(2));
      EXPECT_LT(one.gap_upper - one.gap_lower, all.gap_upper - all.gap_lower) << equal << rows;
      EXPECT_LE(one.upper, all.upper + 1e-12) << equal << rows;
    }
  }
}

TEST(LabelErrorsTest, PartsAdd) {
  const Rows set = DrawRows(3, 900, false, 0.1);
  LabelErrors whole(3);
  whole.Add(set.view());
  // The sums of all labels alone say the same of them.
  LabelTotals totals;
  totals.Add(set.view().rows(0, 400));
  LabelTotals rest;
  rest.Add(set.view().rows(400, 500));
  totals.Merge(rest);
  ExpectSameInterval(*totals.Interval(3, kLabelLevels), *whole.IntervalOfAll(kLabelLevels));
  EXPECT_EQ(totals.rows, 900);
  // One call for each row gives the same bits.
  LabelErrors single(3);
  for (std::size_t i = 0; i < 900; ++i) single.Add(set.view().rows(i, 1));
  EXPECT_TRUE(single == whole);
}

TEST(LabelErrorsTest, HasNoIntervalWithoutATruth) {
  LabelErrors errors(2);
  EXPECT_FALSE(errors.IntervalOfAll(kLabelLevels).has_value());
  const std::vector<double> g = {0.5, 0.2};
  const std::vector<std::int8_t> truths = {kMissingTruth, 1};
  errors.Add({g, truths, 2});
  EXPECT_FALSE(errors.IntervalOf(0, kLabelLevels).has_value());
  EXPECT_TRUE(errors.IntervalOf(1, kLabelLevels).has_value());
  EXPECT_DOUBLE_EQ(errors.IntervalOfAll(kLabelLevels)->estimate, 0.8);
}

TEST(MultilabelBatchTest, ViolationsNameTheRowAndTheLabel) {
  std::vector<double> g = {0.5, 1, 0, 0.25};
  std::vector<std::int8_t> truths = {0, 1, kMissingTruth, 1};
  const auto text = [&](std::size_t label_count) {
    const std::vector<Violation> found = FindViolations(MultilabelBatch{g, truths, label_count});
    return DescribeViolations(found);
  };
  EXPECT_EQ(text(2), "");
  EXPECT_THAT(text(3), HasSubstr("truths has 4 values, expected a multiple of 3"));
  EXPECT_THAT(text(1001), HasSubstr("label_count is 1001, expected 1..1000"));
  g[3] = std::numeric_limits<double>::quiet_NaN();
  EXPECT_THAT(text(2), HasSubstr("rows[1].probabilities[1] is nan, expected a number in [0, 1]"));
  truths[0] = 2;
  EXPECT_THAT(text(2), HasSubstr("rows[0].truths[0] is 2, expected 0, 1, or -1"));
}

}  // namespace
}  // namespace calibd
