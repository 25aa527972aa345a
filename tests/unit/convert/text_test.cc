#include "calibd/convert/text.h"

#include <gtest/gtest.h>

#include <cmath>
#include <string>
#include <vector>

namespace calibd::convert {
namespace {

TEST(PointsTest, HasAtMostTwoDecimals) {
  EXPECT_EQ(Points(0.2), "20");
  EXPECT_EQ(Points(0.02), "2");
  EXPECT_EQ(Points(0.0535), "5.3");
  EXPECT_EQ(Points(0.0999), "10");
  EXPECT_EQ(Points(0.0054), "0.54");
  EXPECT_EQ(Points(0.000071), "0.01");
  EXPECT_EQ(Points(0.00001), "0");
  EXPECT_EQ(OffByText(0.01, 0.002, 0.0999, 0.2), "off by 1 point (0.2 to 10; limit 20 points)");
}

TEST(PercentTest, KeepsTwoDigits) {
  EXPECT_EQ(Percent(0.25, 2), "25.00 %");
  EXPECT_EQ(Percent(0.25, 1), "25.0 %");
  EXPECT_EQ(Percent(0, 1), "0.0 %");
  EXPECT_EQ(Percent(0.001, 1), "0.10 %");
  EXPECT_EQ(Percent(0.001 - 0.0009, 1), "0.010 %");
  EXPECT_EQ(Percent(0.0000123, 2), "0.0012 %");
  EXPECT_EQ(Percent(1.2e-15, 2), "1.2e-13 %");
}

TEST(PointsTest, ANumberThatRoundsToZeroHasNoMinusSign) {
  EXPECT_EQ(Fixed(-0.04, 1), "0.0");
  EXPECT_EQ(Fixed(-0.06, 1), "-0.1");
  EXPECT_EQ(Fixed(-0.0, 0), "0");
  EXPECT_EQ(SignedFixed(-0.04, 1), "+0.0");
  EXPECT_EQ(SignedFixed(-10, 0), "-10");
  EXPECT_EQ(SignedFixed(0.06, 1), "+0.1");
  EXPECT_EQ(Points(-1e-9), "0");
}

TEST(PointsTest, AHugeNumberHasAPowerOfTen) {
  EXPECT_EQ(Fixed(1.3072e142, 3), "1.31e+142");
  EXPECT_EQ(SignedFixed(-2e6, 1), "-2e+06");
  EXPECT_EQ(SignedFixed(999999, 1), "+999999.0");
}

TEST(PointsTest, ADeclaredNumberIsNotRounded) {
  EXPECT_EQ(Exact(110), "110");
  EXPECT_EQ(Exact(1234567.89), "1234567.89");
  EXPECT_EQ(Exact(-0.1), "-0.1");
  EXPECT_EQ(Exact(1e300), "1e+300");
}

TEST(PointsTest, AnIntervalThatSaysLittleHasNoEstimate) {
  EXPECT_EQ(OffByText(0.95, 0, 1, 0.05),
            "off by 0 to 100 points (too few rows to say more; limit 5 points)");
  // Neither one that excludes 0 nor one that ends at a half, which may be the limit.
  EXPECT_EQ(OffByText(0.9, 0.1, 1, 0.05), "off by 90 points (10 to 100; limit 5 points)");
  EXPECT_EQ(OffByText(0.2, 0, 0.5, 0.5), "off by 0 to 50 points (limit 50 points)");
}

TEST(PointsTest, AnEstimateThatIsMostlyNoiseIsLeftOut) {
  // The estimate of a calibrated model is above the limit, and the interval begins at 0.
  EXPECT_EQ(OffByText(0.028, 0, 0.051, 0.02), "off by 0 to 5.1 points (limit 2 points)");
  EXPECT_EQ(OffByText(0.004, 0, 0.01, 0.02), "off by 0 to 1 point (limit 2 points)");
  // The estimate is on the other side of the limit than the lower end.
  EXPECT_EQ(OffByText(0.028, 0.011, 0.051, 0.02), "off by 1.1 to 5.1 points (limit 2 points)");
  EXPECT_EQ(OffByText(0.02, 0.011, 0.051, 0.02), "off by 2 points (1.1 to 5.1; limit 2 points)");
  EXPECT_EQ(OffByText(0.028, 0.0201, 0.051, 0.02),
            "off by 2.8 points (2.01 to 5.1; limit 2 points)");
  v1::ErrorInterval error;
  error.set_estimate(0.028);
  error.set_upper(0.051);
  EXPECT_EQ(IntervalText(error), "0 to 5.1");
  error.set_lower(0.011);
  EXPECT_EQ(IntervalText(error), "2.8 (1.1 to 5.1)");
}

TEST(Class1EventTest, NamesTheClassOfTwo) {
  EXPECT_EQ(Class1Event(Class1Name(std::vector<std::string>{"no", "yes"})), "P(yes)");
  EXPECT_EQ(Class1Event(Class1Name(std::vector<std::string>{"no", "y\nes"})), "P(y?es)");
  EXPECT_EQ(Class1Event(std::string(64, 'x')), "P(" + std::string(21, 'x') + "...)");
  // Without names, with numbers, and of other numbers of classes.
  EXPECT_EQ(Class1Event(Class1Name({})), "P(class 1)");
  EXPECT_EQ(Class1Event(Class1Name(std::vector<std::string>{"0", "1"})), "P(class 1)");
  EXPECT_EQ(Class1Event(Class1Name(std::vector<std::string>{"1", "2"})), "P(class 2)");
  EXPECT_EQ(Class1Name(std::vector<std::string>{"a", "b", "c"}), "");
}

TEST(StatusAgainstTest, NeedsTheWholeInterval) {
  EXPECT_EQ(StatusAgainst(0.02, 0.021, 0.5), v1::CalibrationError::OVER_LIMIT);
  EXPECT_EQ(StatusAgainst(0.02, 0.02, 0.5), v1::CalibrationError::UNDECIDED);
  EXPECT_EQ(StatusAgainst(0.02, 0, 0.02), v1::CalibrationError::WITHIN_LIMIT);
}

TEST(PowerOfTenTest, ALargeNumberIsAPower) {
  EXPECT_EQ(PowerOfTen(3), "1000");
  EXPECT_EQ(PowerOfTen(std::log10(0.0123)), "0.0123");
  EXPECT_EQ(PowerOfTen(6), "10^6");
  EXPECT_EQ(PowerOfTen(412.34), "10^412.3");
  EXPECT_EQ(PowerOfTen(24690.4), "10^24690");
}

TEST(AgeTextTest, IsInWholeUnits) {
  EXPECT_EQ(AgeText(1), "1s");
  EXPECT_EQ(AgeText(91), "91s");
  EXPECT_EQ(AgeText(7199), "119m");
  EXPECT_EQ(AgeText(7200), "2h");
  EXPECT_EQ(AgeText(172800), "2d");
}

TEST(CutLinesTest, LinesAreCutBetweenCharacters) {
  EXPECT_EQ(CutLines("abc\nabcdef\n", 4), "abc\nabcd\n");
  EXPECT_EQ(CutLines("\xc3\xa4\xc3\xb6\xc3\xbc", 2), "\xc3\xa4\xc3\xb6");
  EXPECT_EQ(CutLines("abc", 0), "");
}

TEST(NamesTest, NameGroupsAndModels) {
  EXPECT_EQ(GroupName("eu\x1b", false), "eu?");
  EXPECT_EQ(GroupName("", false), "(no value)");
  EXPECT_EQ(GroupName("", true), "(other groups)");
  EXPECT_EQ(ShortName("models/resnet18/versions/2"), "resnet18@2");
}

}  // namespace
}  // namespace calibd::convert
