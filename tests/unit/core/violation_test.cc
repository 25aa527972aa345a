#include "calibd/core/violation.h"

#include <gtest/gtest.h>

#include <string>
#include <vector>

namespace calibd {
namespace {

TEST(ViolationTest, ThePathIsThatOfTheRequest) {
  EXPECT_EQ(PathOf({"class_count", "is 1"}), "class_count");
  EXPECT_EQ(PathOf({"probabilities", "is 2", 17, 2}), "rows[17].probabilities[2]");
  EXPECT_EQ(PathOf({"probabilities", "sums to 2", 17}), "rows[17].probabilities");
  EXPECT_EQ(PathOf({"labels", "is 9", 3}), "labels[3]");
  EXPECT_EQ(PathOf({"labels", "is 9", 3, 1}), "rows[3].labels[1]");
  EXPECT_EQ(PathOf({"prediction_times", "is not a time", 0}), "prediction_times[0]");
}

TEST(ViolationTest, ParsingAPathReturnsTheViolationOfThePath) {
  for (const char* const field : {"labels", "outcomes", "prediction_ids", "baseline_logits",
                                  "standard_deviation", "model.monitoring.error_limit"}) {
    for (const Violation& violation : std::vector<Violation>{
             {field, "is 7"}, {field, "is 7", 0}, {field, "is 7", 123}, {field, "is 7", 4, 5}}) {
      EXPECT_EQ(ParsePath(PathOf(violation), "is 7"), violation) << PathOf(violation);
    }
  }
}

TEST(ViolationTest, APathWithoutARowStaysAsItIs) {
  for (const std::string path :
       {"", "[", "rows", "rows[", "rows[]", "rows[1", "rows[-1].x", "rows[1]x", "rows[1].x[2",
        "rows[1].x[2]y", "rows[99999999999999999999].x", "labels[1].x", "class_names[3]",
        "model.classes.names[2]", "labels[1"}) {
    EXPECT_EQ(ParsePath(path, "is 7"), (Violation{path, "is 7"})) << path;
    EXPECT_EQ(PathOf(ParsePath(path, "is 7")), path);
  }
}

TEST(ViolationTest, ADescriptionJoinsTheViolations) {
  const std::vector<Violation> violations = {{"labels", "is 9", 3}, {"levels", "is empty"}};
  EXPECT_EQ(DescribeViolations(violations), "labels[3] is 9; levels is empty");
  EXPECT_EQ(DescribeViolations({}), "");
}

}  // namespace
}  // namespace calibd
