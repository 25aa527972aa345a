#include "send_window.h"

#include <gtest/gtest.h>

namespace calibd::client {
namespace {

OutgoingBatch BatchOf(std::int64_t rows) {
  OutgoingBatch batch;
  batch.row_numbers.resize(static_cast<std::size_t>(rows));
  return batch;
}

TEST(SendWindowTest, NumbersBatchesFromWhatTheServerExpects) {
  SendWindow window(7, 2);
  EXPECT_EQ(window.last_sequence(), 6);
  window.Push(BatchOf(1));
  EXPECT_FALSE(window.full());
  window.Push(BatchOf(1));
  EXPECT_TRUE(window.full());
  EXPECT_EQ(window.TakeNextToWrite()->sequence(), 7);
  EXPECT_EQ(window.TakeNextToWrite()->sequence(), 8);
  EXPECT_TRUE(window.all_written());
}

TEST(SendWindowTest, SettlesCumulatively) {
  SendWindow window(1, 3);
  for (const std::int64_t rows : {10, 20, 30}) window.Push(BatchOf(rows));
  while (!window.all_written()) (void)window.TakeNextToWrite();
  ASSERT_TRUE(window.Reject(2).ok());
  const auto settled = window.Acknowledge(2);
  ASSERT_TRUE(settled.ok()) << settled.status();
  EXPECT_EQ(settled->accepted_rows, 10);
  EXPECT_EQ(settled->rejected_rows, 20);
  EXPECT_EQ(window.Acknowledge(2)->accepted_rows, 0);
  EXPECT_EQ(window.Acknowledge(3)->accepted_rows, 30);
  EXPECT_TRUE(window.empty());
}

TEST(SendWindowTest, SettlesLabelsByThemselves) {
  SendWindow window(1, 4);
  for (const std::int64_t rows : {10, 20, 30, 40}) {
    OutgoingBatch batch = BatchOf(rows);
    if (rows != 10) batch.request.mutable_batch()->mutable_labels();
    window.Push(std::move(batch));
  }
  while (!window.all_written()) (void)window.TakeNextToWrite();
  ASSERT_TRUE(window.Reject(3).ok());
  const auto settled = window.Acknowledge(4);
  ASSERT_TRUE(settled.ok()) << settled.status();
  EXPECT_EQ(settled->accepted_rows, 10);
  EXPECT_EQ(settled->rejected_rows, 0);
  EXPECT_EQ(settled->accepted_labels, 60);
  EXPECT_EQ(settled->rejected_labels, 30);
}

TEST(SendWindowTest, ResendsUnacknowledgedBatchesUnderTheirNumbers) {
  SendWindow window(1, 4);
  for (int i = 0; i < 4; ++i) window.Push(BatchOf(1));
  for (int i = 0; i < 3; ++i) (void)window.TakeNextToWrite();
  ASSERT_TRUE(window.Acknowledge(1).ok());
  // The server has also counted batch 2, but its acknowledgement was lost.
  ASSERT_TRUE(window.Reopen(3).ok());
  EXPECT_EQ(window.TakeNextToWrite()->sequence(), 2);
  EXPECT_TRUE(window.last_taken_is_resent());
  EXPECT_EQ(window.TakeNextToWrite()->sequence(), 3);
  EXPECT_EQ(window.TakeNextToWrite()->sequence(), 4);
  EXPECT_FALSE(window.last_taken_is_resent());
  EXPECT_EQ(window.Acknowledge(4)->accepted_rows, 3);
}

TEST(SendWindowTest, KeepsARejectionAcrossConnections) {
  SendWindow window(1, 2);
  window.Push(BatchOf(5));
  (void)window.TakeNextToWrite();
  EXPECT_NE(*window.Reject(1), nullptr);
  ASSERT_TRUE(window.Reopen(2).ok());
  (void)window.TakeNextToWrite();
  EXPECT_EQ(*window.Reject(1), nullptr) << "reported once";
  EXPECT_EQ(window.Acknowledge(1)->rejected_rows, 5);
}

TEST(SendWindowTest, RefusesAServerThatContradictsIt) {
  SendWindow window(5, 2);
  window.Push(BatchOf(1));
  EXPECT_TRUE(absl::IsDataLoss(window.Acknowledge(5).status())) << "not written yet";
  EXPECT_TRUE(absl::IsDataLoss(window.Reject(5).status()));
  EXPECT_TRUE(absl::IsDataLoss(window.Acknowledge(0).status()));
  EXPECT_TRUE(absl::IsDataLoss(window.Acknowledge(-7).status()));
  (void)window.TakeNextToWrite();
  for (const std::int64_t rows : {-1, 0, 2}) {
    EXPECT_TRUE(absl::IsDataLoss(window.Reject(5, rows).status())) << rows << " rows of 1";
  }
  EXPECT_TRUE(absl::IsDataLoss(window.Reopen(4)));
  EXPECT_TRUE(absl::IsAborted(window.Reopen(7)));
  EXPECT_TRUE(window.Reopen(5).ok());
  EXPECT_TRUE(window.Reopen(6).ok());
}

}  // namespace
}  // namespace calibd::client
