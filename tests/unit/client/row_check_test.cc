#include "row_check.h"

#include <gtest/gtest.h>

#include <cmath>
#include <limits>
#include <vector>

namespace calibd::client {
namespace {

std::string Fault(PredictionKind kind, std::vector<double> row, std::int32_t label) {
  auto fault = FindRowFault<double>(kind, row, 1e-3);
  if (!fault.has_value()) fault = FindLabelFault(label, row.size());
  if (!fault.has_value()) return "none";
  fault->row = 7;
  return DescribeViolations({&*fault, 1});
}

TEST(FindFaultTest, AcceptsTheEdges) {
  EXPECT_EQ(Fault(PredictionKind::kProbabilities, {0, 1}, 1), "none");
  EXPECT_EQ(Fault(PredictionKind::kProbabilities, {0.5, 0.5005}, 0), "none");
  EXPECT_EQ(Fault(PredictionKind::kProbabilities, {0.3, 0.699}, 0), "none");
  EXPECT_EQ(Fault(PredictionKind::kProbabilities, {0.3, 0.701}, 0), "none");
  EXPECT_EQ(Fault(PredictionKind::kLogits, {-700, 1e300}, 0), "none");
}

TEST(FindFaultTest, QuantilesThatDecreaseAreNamedWithoutAnIndexOfTheOther) {
  v1::Forecast forecast;
  forecast.mutable_quantiles()->mutable_levels()->Add(0.1);
  forecast.mutable_quantiles()->mutable_levels()->Add(0.9);
  const std::vector<double> row{3, 2};
  const auto fault = FindForecastFault(forecast, row);
  ASSERT_TRUE(fault.has_value());
  EXPECT_EQ(fault->field, "forecasts");
  EXPECT_EQ(fault->column, 1);
  EXPECT_EQ(
      fault->description,
      "is 2, expected at least 3, the quantile before it; separate models of the quantiles may "
      "cross: sort each row");
}

TEST(FindFaultTest, NamesFieldAndValue) {
  constexpr double kNan = std::numeric_limits<double>::quiet_NaN();
  EXPECT_EQ(Fault(PredictionKind::kProbabilities, {0.5, 0.51}, 0),
            "rows[7].probabilities sums to 1.01, off by 0.01, more than the tolerance of 0.001: "
            "normalise the "
            "rows (calibctl --renormalise), or declare a larger row_sum_tolerance");
  EXPECT_EQ(Fault(PredictionKind::kProbabilities, {1 + 1.1e-6, 0}, 0),
            "rows[7].probabilities[0] is 1.0000011, expected a number in [0, 1]");
  EXPECT_EQ(Fault(PredictionKind::kProbabilities, {1 + 1e-7, -1e-7}, 0), "none")
      << "a rounding, which the server takes away";
  EXPECT_EQ(Fault(PredictionKind::kProbabilities, {-0.5, 1.5}, 0),
            "rows[7].probabilities[0] is -0.5, expected a number in [0, 1]");
  EXPECT_EQ(Fault(PredictionKind::kProbabilities, {1, kNan}, 0),
            "rows[7].probabilities[1] is nan, expected a number in [0, 1]");
  EXPECT_EQ(Fault(PredictionKind::kLogits, {1, std::numeric_limits<double>::infinity()}, 0),
            "rows[7].logits[1] is inf, expected a finite number");
  EXPECT_EQ(Fault(PredictionKind::kProbabilities, {0, 1}, 2), "labels[7] is 2, expected [0, 2)");
  EXPECT_EQ(Fault(PredictionKind::kLogits, {0, 1}, -1), "labels[7] is -1, expected [0, 2)");
}

TEST(FindGroupFaultTest, AcceptsOneTo64PrintableBytes) {
  EXPECT_FALSE(FindGroupFault("Zürich \U0001F600").has_value());
  EXPECT_EQ(FindGroupFault(std::string(65, 'x'))->description, "is of 65 bytes, expected 1 to 64");
  EXPECT_EQ(FindGroupFault("a\u202eb")->description,
            "has U+202E at byte 1, expected printable characters");
  EXPECT_EQ(FindGroupFault("\xff")->description, "is not valid UTF-8 at byte 0");
}

TEST(FindIdFaultTest, AcceptsOneTo128BytesOfUtf8) {
  for (const char* id : {"a", "2024-05-01/17", "\x7f", "\u00e9", "\u20ac", "\U0001F600",
                         "\xed\x9f\xbf", "\xee\x80\x80", "\xf4\x8f\xbf\xbf"}) {
    EXPECT_FALSE(FindIdFault(id).has_value()) << id;
  }
  EXPECT_FALSE(FindIdFault(std::string(128, 'x')).has_value());
  EXPECT_FALSE(FindIdFault(std::string_view("\0", 1)).has_value());
  EXPECT_EQ(FindIdFault("")->description, "is of 0 bytes, expected 1 to 128");
  EXPECT_EQ(FindIdFault(std::string(129, 'x'))->description, "is of 129 bytes, expected 1 to 128");
  // A lone continuation byte, overlong forms, surrogates, too large code points, truncated ones.
  for (const char* id : {"\x80", "a\xff", "\xc0\xaf", "\xc1\xbf", "\xe0\x9f\xbf", "\xed\xa0\x80",
                         "\xf0\x8f\xbf\xbf", "\xf4\x90\x80\x80", "\xf5\x80\x80\x80", "\xc3",
                         "\xe2\x82", "\xf0\x9f\x98", "\xe2\x82\x41"}) {
    ASSERT_TRUE(FindIdFault(id).has_value()) << id;
    EXPECT_EQ(FindIdFault(id)->description, "is not valid UTF-8");
  }
}

}  // namespace
}  // namespace calibd::client
