#include "server/ingest/logged_batch.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "calibd/store/v1/store.pb.h"

namespace calibd::server {
namespace {

using ::testing::ElementsAre;

DecodedBatch Batch(std::vector<double> probabilities) {
  DecodedBatch batch;
  batch.probabilities = std::move(probabilities);
  batch.labels = {1, 0};
  batch.class_count = 2;
  batch.rows = 2;
  batch.dropped_rows = 3;
  return batch;
}

TEST(LoggedBatchTest, ComesBackAsItWas) {
  // The first are exact in single precision, the others are not.
  for (const auto& values :
       {std::vector<double>{0.25, 0.75, 0.5, 0.5}, std::vector<double>{0.1, 0.9, 0.5, 0.5}}) {
    const std::string logged = EncodeLogged(
        Batch(values), ProducerPosition{.producer_id = "p", .epoch = 2, .sequence = 7});
    const auto decoded = DecodeLogged(logged, 2);
    ASSERT_TRUE(decoded.ok()) << decoded.status();
    EXPECT_TRUE(decoded->validity.ok());
    EXPECT_EQ(decoded->probabilities, values);
    EXPECT_THAT(decoded->labels, ElementsAre(1, 0));
    EXPECT_EQ(decoded->rows, 2);
    EXPECT_EQ(decoded->dropped_rows, 3);
    store::v1::LoggedBatch message;
    ASSERT_TRUE(message.ParseFromString(logged));
    EXPECT_EQ(message.producer_id(), "p");
    EXPECT_EQ(message.epoch(), 2);
    EXPECT_EQ(message.sequence(), 7);
  }
}

TEST(LoggedBatchTest, SinglePrecisionTakesHalfTheRoom) {
  const std::vector<double> exact(2000, 0.5);
  const std::vector<double> other(2000, 0.1);
  EXPECT_LT(EncodeLogged(Batch(exact), {}).size(), 8100U);
  EXPECT_GT(EncodeLogged(Batch(other), {}).size(), 16000U);
}

TEST(LoggedBatchTest, RejectedBatchesLeaveTheirRows) {
  DecodedBatch rejected;
  rejected.validity = absl::InvalidArgumentError("is bad");
  rejected.rows = 5;
  const auto decoded = DecodeLogged(EncodeLogged(rejected, {}), 2);
  ASSERT_TRUE(decoded.ok()) << decoded.status();
  EXPECT_FALSE(decoded->validity.ok());
  EXPECT_EQ(decoded->rows, 5);
}

TEST(LoggedBatchTest, DamageIsDataLoss) {
  const std::string logged = EncodeLogged(Batch({0.25, 0.75, 0.5, 0.5}), {});
  EXPECT_EQ(DecodeLogged(logged, 3).status().code(), absl::StatusCode::kDataLoss);
  EXPECT_EQ(DecodeLogged(logged.substr(0, 5), 2).status().code(), absl::StatusCode::kDataLoss);
  EXPECT_EQ(DecodeLogged("", 2).status().code(), absl::StatusCode::kDataLoss);
  DecodedBatch label = Batch({0.25, 0.75, 0.5, 0.5});
  label.labels[0] = 2;
  EXPECT_EQ(DecodeLogged(EncodeLogged(label, {}), 2).status().code(), absl::StatusCode::kDataLoss);
}

}  // namespace
}  // namespace calibd::server
