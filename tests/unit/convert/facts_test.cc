// Facts and tables that clients show without rules of their own.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "calibd/convert/multilabel.h"
#include "calibd/convert/reading.h"
#include "calibd/convert/text.h"

namespace calibd::convert {
namespace {

using ::testing::ElementsAre;
using ::testing::StartsWith;

v1::ErrorInterval IntervalOfEvent(double lower, double upper) {
  v1::ErrorInterval interval;
  interval.set_estimate((lower + upper) / 2);
  interval.set_lower(lower);
  interval.set_upper(upper);
  return interval;
}

std::vector<std::string> CellsOfRow(const v1::MultilabelCalibration& labels, int row) {
  const auto& cells = labels.table().rows(row).cells();
  return {cells.begin(), cells.end()};
}

TEST(LabelTableTest, ALabelSaysSinceWhichRowItIsCounted) {
  v1::MultilabelCalibration labels;
  v1::LabelCalibration& over = *labels.add_labels();
  over.set_name("wind");
  over.set_status(v1::CalibrationError::OVER_LIMIT);
  over.set_rejected(true);
  const auto mark = [&labels] {
    AddTable(labels);
    return CellsOfRow(labels, 0).back();
  };
  EXPECT_EQ(mark(), "over the limit, rejected");
  over.set_since_observation(4001);
  over.set_acknowledged_limit(0.187);
  EXPECT_EQ(mark(), "over the limit, rejected, counted since row 4001, accepted up to 18.7 points");
  over.set_recovered_since(5121);
  EXPECT_EQ(mark(),
            "recovered since row 5121, rejected, counted since row 4001, accepted up to 18.7 "
            "points");
  v1::DatedChange change;
  change.set_to_observation(5184);
  AddTable(labels, false, change);
  EXPECT_THAT(CellsOfRow(labels, 0).back(),
              StartsWith("on average within the limit since row 5121, rejected"));
}

TEST(LabelTableTest, AnEstimateIsLeftOutBesideAnIntervalThatBeginsAtZero) {
  v1::MultilabelCalibration labels;
  v1::LabelCalibration& label = *labels.add_labels();
  label.set_name("rain");
  AddTable(labels);
  EXPECT_THAT(CellsOfRow(labels, 0), ElementsAre("rain", "0", "-", "-", "-", "-", "0.0", ""));
  label.set_truths(100);
  label.set_stated(0.5);
  label.set_held(0.25);
  *label.mutable_error() = IntervalOfEvent(0, 0.075);
  AddTable(labels);
  EXPECT_THAT(CellsOfRow(labels, 0),
              ElementsAre("rain", "100", "50.0 %", "25.0 %", "-", "0 to 7.5", "0.0", ""));
  *label.mutable_error() = IntervalOfEvent(0.01, 0.03);
  AddTable(labels);
  EXPECT_THAT(CellsOfRow(labels, 0),
              ElementsAre("rain", "100", "50.0 %", "25.0 %", "2", "1 to 3", "0.0", ""));
}

TEST(LabelTableTest, LabelsOverTheLimitComeFirst) {
  v1::MultilabelCalibration labels;
  labels.add_labels()->set_name("fine");
  v1::LabelCalibration& rejected = *labels.add_labels();
  rejected.set_name("rejected");
  rejected.set_rejected(true);
  v1::LabelCalibration& over = *labels.add_labels();
  over.set_name("over\x1b");
  over.set_status(v1::CalibrationError::OVER_LIMIT);
  AddTable(labels);
  ASSERT_EQ(labels.table().rows_size(), 3);
  EXPECT_EQ(CellsOfRow(labels, 0).front(), "over?");
  EXPECT_EQ(CellsOfRow(labels, 1).front(), "rejected");
  EXPECT_EQ(CellsOfRow(labels, 2).front(), "fine");
  for (const v1::Table::Row& row : labels.table().rows()) {
    EXPECT_EQ(row.cells_size(), labels.table().columns_size());
  }
  EXPECT_EQ(labels.table().left_out(), 0);
}

TEST(LabelTableTest, ItHasTheFirstLabelsUnlessItIsWhole) {
  v1::MultilabelCalibration labels;
  for (int k = 0; k < 30; ++k) labels.add_labels()->set_name(absl::StrCat("label", k));
  labels.mutable_labels(25)->set_rejected(true);
  AddTable(labels);
  EXPECT_EQ(labels.table().rows_size(), 20);
  EXPECT_EQ(labels.table().left_out(), 10);
  EXPECT_EQ(CellsOfRow(labels, 0).front(), "label25");
  AddTable(labels, true);
  EXPECT_EQ(labels.table().rows_size(), 30);
  EXPECT_EQ(labels.table().left_out(), 0);
}

TEST(CompareEventsTest, TheNewestRowsSpeakOfTheWorseEventOfAllRows) {
  v1::CalibrationError error;
  error.set_limit(0.05);
  v1::ErrorMeasurement& start = *error.mutable_since_start();
  *start.mutable_top_label() = IntervalOfEvent(0.01, 0.03);
  *start.mutable_class_1() = IntervalOfEvent(0.02, 0.03);
  v1::ErrorMeasurement& newest = *error.mutable_newest();
  *newest.mutable_top_label() = IntervalOfEvent(0.04, 0.06);
  *newest.mutable_class_1() = IntervalOfEvent(0, 0.02);
  CompareEvents(error);
  EXPECT_TRUE(error.since_start().class_1_is_worse());
  EXPECT_TRUE(error.newest().class_1_is_worse());
  // Only the other event is over the limit.
  *newest.mutable_top_label() = IntervalOfEvent(0.06, 0.08);
  CompareEvents(error);
  EXPECT_FALSE(error.newest().class_1_is_worse());
  // Both events of a rare class are off equally.
  *start.mutable_class_1() = start.top_label();
  CompareEvents(error);
  EXPECT_FALSE(error.since_start().class_1_is_worse());
  // More than two classes have one event.
  start.clear_class_1();
  CompareEvents(error);
  EXPECT_FALSE(error.since_start().class_1_is_worse());
}

TEST(CountTextTest, OneIsSingular) {
  EXPECT_EQ(CountText(0, "row"), "0 rows");
  EXPECT_EQ(CountText(1, "known truth"), "1 known truth");
  EXPECT_EQ(CountText(std::size_t{2}, "label"), "2 labels");
  EXPECT_EQ(CountCharacters("K\u00fcche"), 5U);
}

}  // namespace
}  // namespace calibd::convert
