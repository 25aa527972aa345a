#include "client/cli/files/label_table.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <fstream>
#include <string>

#include "absl/strings/str_cat.h"
#include "client/cli/files/row_faults.h"
#include "support/temporary_folder.h"

namespace calibd::cli {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

class LabelTableTest : public ::testing::Test {
 protected:
  absl::StatusOr<LabelTable> Read(const std::string& text, bool drop_invalid = false) {
    ColumnOptions options;
    options.drop_invalid = drop_invalid;
    const std::string path = (folder_.path() / "labels.csv").string();
    std::ofstream(path) << text;
    return ReadLabelTable(path, options);
  }
  std::string Error(const std::string& text) { return std::string(Read(text).status().message()); }

 private:
  calibd::testing::TemporaryFolder folder_;
};

TEST_F(LabelTableTest, ReadsTheColumnsByTheirNames) {
  const auto table = Read(
      "id,prob_rain,label_fog,prob_fog,label_rain\n"
      "a,0.25,1,0.5,0\n"
      "b,1,,0,True\n");
  ASSERT_TRUE(table.ok()) << table.status();
  EXPECT_THAT(table->names, ElementsAre("rain", "fog"));
  EXPECT_THAT(table->values, ElementsAre(0.25, 0.5, 1, 0));
  EXPECT_THAT(table->labels, ElementsAre(0, 1, 1, kMissingTruth));
}

TEST_F(LabelTableTest, ReadsJsonLines) {
  const auto table = Read(
      "{\"prob_rain\": 0.25, \"label_rain\": true}\n"
      "{\"prob_rain\": 0.5, \"label_rain\": null}\n");
  ASSERT_TRUE(table.ok()) << table.status();
  EXPECT_THAT(table->labels, ElementsAre(1, kMissingTruth));
}

TEST_F(LabelTableTest, DropsInvalidRowsOnRequest) {
  const std::string rows = "prob_rain,label_rain\n0.5,2\n0.25,1\n1.5,0\nNA,1\n0.5\n0.75,NA\n";
  const auto table = Read(rows, true);
  ASSERT_TRUE(table.ok()) << table.status();
  EXPECT_EQ(table->changes.dropped_rows, 4U);
  EXPECT_THAT(table->values, ElementsAre(0.25, 0.75));
  EXPECT_THAT(table->labels, ElementsAre(1, kMissingTruth));
  EXPECT_THAT(std::string(Read("prob_rain,label_rain\n2,1\n", true).status().message()),
              HasSubstr("has no valid rows"));
}

TEST_F(LabelTableTest, ErrorsNameTheColumnAndTheCell) {
  EXPECT_THAT(Error("prob_rain,label_fog\n0.5,1\n"), HasSubstr("but no \"label_rain\""));
  EXPECT_THAT(Error("prob_rain,label_rain,label_fog\n0.5,1,1\n"), HasSubstr("but no \"prob_fog\""));
  // Without the names it is not clear what a file has.
  EXPECT_THAT(Error("rain\n0.5\n"),
              HasSubstr("has the columns \"rain\", expected two for each label NAME: prob_NAME, "));
  EXPECT_THAT(Error("rain,label_rain\n0.5,1\n"),
              HasSubstr("has the columns \"rain\", \"label_rain\", expected two for each label"));
  EXPECT_THAT(Error("prob_rain,label_rain\n1.5,1\n"),
              HasSubstr("line 2, column 1 (\"prob_rain\") is 1.5, expected a number in [0, 1]"));
  EXPECT_THAT(
      Error("prob_rain,label_rain\n0.5,2\n"),
      HasSubstr("line 2, column 2 (\"label_rain\"): truth \"2\", expected 0, 1, or nothing"));
  EXPECT_THAT(Error("prob_rain,label_rain\n0.5\n"), HasSubstr("the line has 1 column, expected 2"));
  EXPECT_THAT(Error("prob_rain,label_rain\n"), HasSubstr("has no rows"));
}

TEST_F(LabelTableTest, CountsValuesThatAreARoundingAwayFromAProbability) {
  const auto table = Read("prob_rain,label_rain\n1.00000012,1\n-1e-7,0\n");
  ASSERT_TRUE(table.ok()) << table.status();
  EXPECT_THAT(table->values, ElementsAre(1, 0));
  EXPECT_EQ(table->changes.rounded_probabilities, 2U);
}

TEST_F(LabelTableTest, FaultsOfTruthsNameTheirColumns) {
  const auto table = Read("prob_rain,label_rain,prob_fog,label_fog\n0.5,1,0.5,0\n");
  ASSERT_TRUE(table.ok()) << table.status();
  for (const char* const field : {"labels", "truths"}) {
    const std::vector<Violation> fault = {{field, "is 7", 0, 1}};
    EXPECT_THAT(std::string(DescribeFaults(*table, fault).message()),
                HasSubstr("labels.csv line 2, column 4 (\"label_fog\") is 7"));
  }
}

}  // namespace
}  // namespace calibd::cli
