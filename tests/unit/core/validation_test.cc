#include "calibd/core/validation.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <limits>

#include "absl/strings/str_cat.h"
#include "calibd/core/generator.h"
#include "calibd/core/probability.h"
#include "calibd/core/row_sum.h"

namespace calibd {
namespace {

using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::SizeIs;

constexpr double kNan = std::numeric_limits<double>::quiet_NaN();

std::string Check(const std::vector<double>& probabilities, const std::vector<std::int32_t>& labels,
                  std::size_t class_count = 2) {
  return std::string(ValidateBatch({probabilities, labels, class_count}).message());
}

TEST(ValidationTest, AcceptsRowsWithinTolerance) {
  EXPECT_EQ(Check({0.3, 0.7, 1, 0, 0.5, 0.5009}, {0, 1, 1}), "");
}

// Binary numbers cannot represent these sums exactly, and neither can single precision.
TEST(ValidationTest, AcceptsSumsOfExactlyTheTolerance) {
  EXPECT_EQ(Check({0.3, 0.699, 0.3, 0.701, 0.333, 0.666, 0.334, 0.667}, {0, 0, 0, 0}), "");
  EXPECT_EQ(Check({0.3F, 0.699F, 0.3F, 0.701F, 0.334F, 0.667F}, {0, 0, 0}), "");
  EXPECT_EQ(Check({0.1, 0.2, 0.3, 0.399, 0.1, 0.2, 0.3, 0.401}, {0, 0}, 4), "");
  EXPECT_THAT(Check({0.3, 0.6989}, {0}), HasSubstr("sums to 0.9989, off by 0.0011"));
  EXPECT_THAT(Check({0.3, 0.70101}, {0}), HasSubstr("off by 0.00101"));
  const std::vector<double> edge{0.5, 0.5 + 1e-9};
  const std::vector<std::int32_t> label{0};
  EXPECT_THAT(FindViolations({edge, label, 2}, 1e-9), IsEmpty());
  EXPECT_THAT(FindViolations({edge, label, 2}, 9e-10), SizeIs(1));
}

TEST(ValidationTest, RoundingToFourDecimalsIsWithinTheDefaultTolerance) {
  for (const std::size_t m : {2U, 20U, 1000U}) {
    PredictionSet set;
    Generator::Create(GeneratorSpec::M1(m), 7)->Draw(200, set);
    for (double& value : set.probabilities) value = std::round(value * 1e4) / 1e4;
    EXPECT_THAT(FindViolations(set.view()), IsEmpty()) << m;
    // All errors in one direction.
    const std::vector<double> row(m, 1.0 / static_cast<double>(m) + 5e-5);
    const std::vector<std::int32_t> label{0};
    EXPECT_THAT(FindViolations({row, label, m}), IsEmpty()) << m;
  }
  EXPECT_EQ(DefaultRowSumTolerance(2), 1e-3);
  EXPECT_EQ(DefaultRowSumTolerance(1000), 0.05);
  EXPECT_EQ(DefaultRowSumTolerance(100000), kMaxRowSumTolerance);
}

TEST(ProbabilityTest, ARoundingAwayFromTheIntervalIsItsEnd) {
  const double one = static_cast<double>(std::nextafter(1.0F, 2.0F));
  EXPECT_EQ(RoundToProbability(one), 1);
  EXPECT_EQ(RoundToProbability(-one + 1), 0);
  EXPECT_EQ(RoundToProbability(1 + kProbabilityRounding), 1);
  EXPECT_EQ(RoundToProbability(-kProbabilityRounding), 0);
  for (const double value : {0.0, 1e-7, 0.5, 1 - 1e-7, 1.0, 1 + 2e-6, -2e-6, HUGE_VAL, -HUGE_VAL}) {
    EXPECT_EQ(RoundToProbability(value), value);
  }
  EXPECT_TRUE(std::isnan(RoundToProbability(kNan)));
  std::vector<double> values = {one, -1e-7, 0.5, 2, kNan};
  EXPECT_EQ(RoundToProbabilities(values), 2U);
  EXPECT_EQ(RoundToProbabilities(values), 0U);
  EXPECT_EQ(values[0], 1);
  EXPECT_EQ(values[1], 0);
  EXPECT_EQ(values[3], 2);
}

TEST(ValidationTest, NamesRowAndValue) {
  EXPECT_EQ(Check({0.3, 0.7, 0.33, 0.7}, {0, 1}),
            "rows[1].probabilities sums to 1.03, off by 0.03, more than the tolerance of 0.001: "
            "normalise the rows (calibctl --renormalise), or declare a larger row_sum_tolerance");
  EXPECT_EQ(
      Check({0.3, 0.7, 0.61, 0.7}, {0, 1}),
      "rows[1].probabilities sums to 1.31, off by 0.31, more than the tolerance of 0.001: the "
      "probabilities of classes sum to 1, so one value may be no probability of a class; if the "
      "classes do not exclude each other, they are several labels (calibctl evaluate-labels, "
      "calibctl model create --labels)");
  EXPECT_THAT(Check({0.3, 0.4}, {0}), HasSubstr("sum to 1, so one may be missing; if"));
  EXPECT_EQ(Check({0.3, 0.7, 1.5, -0.5}, {0, 1}),
            "rows[1].probabilities[0] is 1.5, expected a number in [0, 1]");
  EXPECT_EQ(Check({-0.25, 1.25}, {0}),
            "rows[0].probabilities[0] is -0.25, expected a number in [0, 1]");
  EXPECT_THAT(Check({0.5, kNan}, {0}), HasSubstr("rows[0].probabilities[1] is nan"));
  EXPECT_THAT(Check({0.5, HUGE_VAL}, {0}), HasSubstr("rows[0].probabilities[1] is inf"));
  EXPECT_EQ(Check({std::nextafter(1.0, 2.0), 0}, {0}),
            "rows[0].probabilities[0] is 1.0000000000000002, expected a number in [0, 1]");
  EXPECT_EQ(Check({0.5, 0.5}, {2}), "labels[0] is 2, expected [0, 2)");
  EXPECT_EQ(Check({0.5, 0.5}, {-1}), "labels[0] is -1, expected [0, 2)");
}

// The row is at any position among other rows, because several rows are checked at a time.
TEST(ValidationTest, FindsTheOnlyInvalidRow) {
  constexpr std::size_t kRows = 19;
  for (const std::size_t m : {2U, 3U, 10U}) {
    PredictionSet set;
    Generator::Create(GeneratorSpec::M1(m), m)->Draw(kRows, set);
    ASSERT_THAT(FindViolations(set.view(), 1e-9), IsEmpty());
    for (std::size_t i = 0; i < kRows; ++i) {
      for (std::size_t k = 0; k < m; ++k) {
        PredictionSet changed = set;
        for (const double bad : {-1e-300, 1 + 1e-15, kNan, HUGE_VAL, -HUGE_VAL}) {
          changed.probabilities[i * m + k] = bad;
          const auto violations = FindViolations(changed.view());
          ASSERT_THAT(violations, SizeIs(1));
          EXPECT_EQ(PathOf(violations[0]), absl::StrCat("rows[", i, "].probabilities[", k, "]"));
        }
      }
      PredictionSet changed = set;
      changed.labels[i] = static_cast<std::int32_t>(m);
      EXPECT_THAT(FindViolations(changed.view()), SizeIs(1));
      // The sum is taken from the first class to the last.
      changed = set;
      const auto row = changed.probabilities.begin() + static_cast<std::ptrdiff_t>(i * m);
      *std::max_element(row, row + static_cast<std::ptrdiff_t>(m)) /= 2;
      double sum = 0;
      for (const double value : changed.view().row(i)) sum += value;
      const double off = std::abs(sum - 1);
      EXPECT_THAT(FindViolations(changed.view(), off), IsEmpty());
      const auto violations = FindViolations(changed.view(), 0.999 * off);
      ASSERT_THAT(violations, SizeIs(1));
      EXPECT_EQ(PathOf(violations[0]), absl::StrCat("rows[", i, "].probabilities"));
    }
  }
}

TEST(ValidationTest, NamesAWrongShape) {
  EXPECT_EQ(Check({}, {}), "labels is empty, expected at least 1 row");
  EXPECT_EQ(Check({0.5, 0.5, 1}, {0}), "probabilities has 3 values, expected 1 labels x 2 classes");
  EXPECT_EQ(Check({0.5, 0.5}, {0, 1}), "probabilities has 2 values, expected 2 labels x 2 classes");
  EXPECT_EQ(Check({1}, {0}, 1), "class_count is 1, expected 2..100000");
}

TEST(ValidationTest, ReportsOneViolationPerRowAndAFewInTotal) {
  std::vector<double> probabilities;
  std::vector<std::int32_t> labels;
  for (int i = 0; i < 100; ++i) {
    probabilities.insert(probabilities.end(), {kNan, kNan});
    labels.push_back(-1);
  }
  const auto violations = FindViolations({probabilities, labels, 2});
  ASSERT_THAT(violations, SizeIs(kMaxReportedViolations));
  EXPECT_EQ(PathOf(violations[4]), "rows[4].probabilities[0]");
}

TEST(ValidationTest, ToleranceIsInclusiveAndConfigurable) {
  const std::vector<double> probabilities = {0.5, 0.53125};  // off by 2^-5 exactly
  const std::vector<std::int32_t> labels = {0};
  EXPECT_THAT(FindViolations({probabilities, labels, 2}, 0.03125), IsEmpty());
  EXPECT_THAT(FindViolations({probabilities, labels, 2}, 0.03), SizeIs(1));
}

TEST(SoftmaxTest, SurvivesLargeLogits) {
  std::vector<double> logits = {1000, 1000, -1e308, 1e308, 0, std::log(3.0)};
  ASSERT_THAT(SoftmaxRows(logits, 2), IsEmpty());
  const std::vector<double> expected = {0.5, 0.5, 0, 1, 0.25, 0.75};
  for (std::size_t k = 0; k < expected.size(); ++k) {
    EXPECT_NEAR(logits[k], expected[k], 1e-15);
  }
}

TEST(SoftmaxTest, RejectsNonFiniteAndLeavesValues) {
  std::vector<double> logits = {0, 1, kNan, 2};
  const auto violations = SoftmaxRows(logits, 2);
  ASSERT_THAT(violations, SizeIs(1));
  EXPECT_EQ(PathOf(violations[0]), "rows[1].logits[0]");
  EXPECT_EQ(logits[0], 0);
}

}  // namespace
}  // namespace calibd
