// The bytes of the state of a model of several labels in the store: see store_format_test.
#include <gtest/gtest.h>

#include <chrono>
#include <cstdint>
#include <cstdlib>
#include <string>
#include <utility>
#include <vector>

#include "server/kinds/history_bucket.h"
#include "server/state/check_declaration.h"
#include "server/state/model.h"
#include "support/log_rows.h"
#include "unit/server/golden_blob.h"

namespace calibd::server {
namespace {

constexpr std::size_t kFormatLabels = 3;

ModelDeclaration LabelFormatDeclaration() {
  v1::Model model;
  model.set_name("models/labels");
  for (const char* const name : {"rain", "fog", "wind"}) model.mutable_labels()->add_names(name);
  return CheckDeclaration(model, std::size_t{1} << 30).value();
}

// 2000 rows of wind that holds half as often as it is stated, with an alarm that is acknowledged.
store::v1::ModelState StateAfterRows() {
  ThreadPool pool("test", 1);
  Model model(1, LabelFormatDeclaration(), {}, {}, pool, nullptr);
  std::int64_t log_id = 0;
  const auto apply = [&](auto row) {
    ++log_id;
    model.strand_state().Apply(testing::RowOf(std::move(row)), log_id,
                               std::chrono::seconds(1700000000 + log_id));
  };
  ObservationsRow rows;
  rows.values.width = kFormatLabels;
  rows.values.truths.each = kFormatLabels;
  for (int i = 0; i < 2000; ++i) {
    for (int k = 0; k < static_cast<int>(kFormatLabels); ++k) {
      // Half of the values of a label hold; every eighth truth is missing.
      const bool high = i % 4 < 2;
      rows.values.values.push_back(high ? 0.75 : 0.25);
      const bool holds = (i % 16 < 12) == high && k < 2;
      rows.values.truths.labels.push_back((i + k) % 8 == 0 ? -1 : holds ? 1 : 0);
    }
  }
  apply(std::move(rows));
  const auto& alarms = *model.strand_state().Snapshot()->monitor->alarms;
  EXPECT_FALSE(alarms.empty());
  apply(AcknowledgedRow{.alarm_id = alarms.front().id, .note = "seen"});
  return model.strand_state().Save();
}

// Sums and logarithms may differ in their last bits on another CPU: the state is made once. The
// same bytes must be read into the same state and be written again.
TEST(LabelFormatTest, StatesAreReadAndWrittenUnchanged) {
  if (std::getenv("CALIBD_TEST_WRITE_GOLDEN") != nullptr) {
    ExpectGolden("model_state_labels", StateAfterRows().SerializeAsString());
  }
  const std::string bytes = ReadGolden("model_state_labels");
  store::v1::ModelState golden;
  ASSERT_TRUE(golden.ParseFromString(bytes));
  ThreadPool pool("test", 1);
  Model model(1, LabelFormatDeclaration(), {}, {}, pool, nullptr);
  const absl::Status restored = model.strand_state().Restore(golden);
  ASSERT_TRUE(restored.ok()) << restored;
  EXPECT_EQ(absl::BytesToHexString(model.strand_state().Save().SerializeAsString()),
            absl::BytesToHexString(bytes));
  const auto snapshot = model.strand_state().Snapshot();
  EXPECT_EQ(snapshot->observations, 2000);
  ASSERT_TRUE(snapshot->monitor.has_value());
  EXPECT_EQ(snapshot->monitor->labels.size(), kFormatLabels);
  EXPECT_EQ(snapshot->monitor->alarms->front().note, "seen");
}

HistoryBucket BucketOfLabels() {
  HistoryBucket bucket;
  const std::vector<double> probabilities{0.25, 0.5, 0.125};
  for (int i = 0; i < 10; ++i) {
    const std::vector<std::int8_t> truths{static_cast<std::int8_t>(i % 2), -1, 0};
    bucket.labels.Add(
        {.probabilities = probabilities, .truths = truths, .label_count = kFormatLabels});
  }
  bucket.rejected_rows = 3;
  bucket.missing_labels = 4;
  bucket.late_log_id = 70000;
  return bucket;
}

TEST(LabelFormatTest, BucketsOfTheHistoryAreReadAndWrittenUnchanged) {
  ExpectGolden("history_bucket_labels", EncodeHistoryBucket(BucketOfLabels()));
  const auto read = DecodeHistoryBucket(ReadGolden("history_bucket_labels"));
  ASSERT_TRUE(read.ok()) << read.status();
  EXPECT_EQ(absl::BytesToHexString(EncodeHistoryBucket(*read)),
            absl::BytesToHexString(ReadGolden("history_bucket_labels")));
  EXPECT_EQ(read->labels.labels, BucketOfLabels().labels.labels);
  EXPECT_EQ(read->late_log_id, 70000);
}

}  // namespace
}  // namespace calibd::server
