#include "row_check.h"

#include <gtest/gtest.h>

#include <limits>
#include <vector>

namespace calibd::client {
namespace {

std::string Fault(PredictionKind kind, std::vector<double> row, std::int32_t label) {
  const auto fault = FindFault<double>(kind, row, label, 1e-3);
  return fault.has_value() ? std::string(fault->field) + " " + fault->description : "none";
}

TEST(FindFaultTest, AcceptsTheEdges) {
  EXPECT_EQ(Fault(PredictionKind::kProbabilities, {0, 1}, 1), "none");
  EXPECT_EQ(Fault(PredictionKind::kProbabilities, {0.5, 0.5005}, 0), "none");
  EXPECT_EQ(Fault(PredictionKind::kLogits, {-700, 1e300}, 0), "none");
}

TEST(FindFaultTest, NamesFieldAndValue) {
  constexpr double kNan = std::numeric_limits<double>::quiet_NaN();
  EXPECT_EQ(Fault(PredictionKind::kProbabilities, {0.5, 0.81}, 0),
            "probabilities sums to 1.31, expected 1 +- 0.001");
  EXPECT_EQ(Fault(PredictionKind::kProbabilities, {-0.5, 1.5}, 0),
            "probabilities value 0 = -0.5, expected a number in [0, 1]");
  EXPECT_EQ(Fault(PredictionKind::kProbabilities, {1, kNan}, 0),
            "probabilities value 1 = nan, expected a number in [0, 1]");
  EXPECT_EQ(Fault(PredictionKind::kLogits, {1, std::numeric_limits<double>::infinity()}, 0),
            "logits value 1 = inf, expected a finite number");
  EXPECT_EQ(Fault(PredictionKind::kProbabilities, {0, 1}, 2), "labels is 2, expected [0, 2)");
  EXPECT_EQ(Fault(PredictionKind::kLogits, {0, 1}, -1), "labels is -1, expected [0, 2)");
}

}  // namespace
}  // namespace calibd::client
