#include "server/ingest/logged_batch.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <chrono>
#include <cmath>
#include <functional>
#include <utility>

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

LoggedBatch Logged(DecodedBatch batch) { return MakeLoggedBatch(std::move(batch)); }

TEST(LoggedBatchTest, ComesBackAsItWas) {
  // The first are exact in single precision, the others are not.
  for (const auto& values :
       {std::vector<double>{0.25, 0.75, 0.5, 0.5}, std::vector<double>{0.1, 0.9, 0.5, 0.5}}) {
    std::string encoded = EncodeLogged(
        Logged(Batch(values)), ProducerPosition{.producer_id = "p", .epoch = 2, .sequence = 7});
    AppendElapsed(std::chrono::microseconds(99), encoded);
    const auto decoded = DecodeLogged(encoded, 2);
    ASSERT_TRUE(decoded.ok()) << decoded.status();
    EXPECT_EQ(decoded->kind, LoggedBatch::Kind::kObservations);
    EXPECT_FALSE(decoded->tracked());
    EXPECT_EQ(decoded->elapsed, std::chrono::microseconds(99));
    EXPECT_TRUE(decoded->batch.validity.ok());
    EXPECT_EQ(decoded->batch.probabilities, values);
    EXPECT_THAT(decoded->batch.labels, ElementsAre(1, 0));
    EXPECT_EQ(decoded->batch.rows, 2);
    EXPECT_EQ(decoded->batch.dropped_rows, 3);
    store::v1::LoggedBatch message;
    ASSERT_TRUE(message.ParseFromString(encoded));
    EXPECT_EQ(message.producer_id(), "p");
    EXPECT_EQ(message.epoch(), 2);
    EXPECT_EQ(message.sequence(), 7);
  }
}

TEST(LoggedBatchTest, SinglePrecisionTakesHalfTheRoom) {
  const std::vector<double> exact(2000, 0.5);
  const std::vector<double> other(2000, 0.1);
  EXPECT_LT(EncodeLogged(Logged(Batch(exact)), {}).size(), 8100U);
  EXPECT_GT(EncodeLogged(Logged(Batch(other)), {}).size(), 16000U);
}

// What is written by hand, as protobuf writes it.
TEST(LoggedBatchTest, BytesAreThoseOfProtobuf) {
  for (const std::size_t rows : {1U, 3U, 700U}) {
    for (const bool single : {false, true}) {
      DecodedBatch batch;
      batch.class_count = 2;
      for (std::size_t i = 0; i < rows; ++i) {
        const double p = single ? 0.25 : 0.1;
        batch.probabilities.insert(batch.probabilities.end(), {p, 1 - p});
        // Labels of one, two and three bytes.
        batch.labels.push_back(static_cast<std::int32_t>((i * 7919) % 100000));
      }
      batch.rows = static_cast<std::int64_t>(rows);
      batch.dropped_rows = 300;
      for (const bool known : {false, single}) {
        batch.single_precision = known;
        const std::string encoded = EncodeLogged(
            Logged(batch), ProducerPosition{.producer_id = "p", .epoch = 2, .sequence = 7});
        store::v1::LoggedBatch message;
        ASSERT_TRUE(message.ParseFromString(encoded));
        EXPECT_EQ(message.float_probabilities().empty(), !single);
        EXPECT_EQ(message.SerializeAsString(), encoded);
        EXPECT_TRUE(std::equal(message.labels().begin(), message.labels().end(),
                               batch.labels.begin(), batch.labels.end()));
      }
    }
  }
}

TEST(LoggedBatchTest, RejectedBatchesLeaveTheirRows) {
  DecodedBatch rejected;
  rejected.validity = absl::InvalidArgumentError("is bad");
  rejected.rows = 5;
  const auto decoded = DecodeLogged(EncodeLogged(Logged(rejected), {}), 2);
  ASSERT_TRUE(decoded.ok()) << decoded.status();
  EXPECT_EQ(decoded->kind, LoggedBatch::Kind::kRejected);
  EXPECT_FALSE(decoded->batch.validity.ok());
  EXPECT_EQ(decoded->batch.rows, 5);
}

TEST(LoggedBatchTest, PendingPredictionsAreRecovered) {
  for (const bool labelled : {false, true}) {
    DecodedBatch batch = Batch({0.25, 0.75, 0.5, 0.5});
    batch.kind = DecodedBatch::Kind::kPredictions;
    batch.ids = {HashId("a"), HashId("b")};
    if (!labelled) batch.labels.clear();
    LoggedBatch logged = Logged(batch);
    logged.duplicate_predictions = 4;
    const auto decoded = DecodeLogged(EncodeLogged(logged, {}), 2);
    ASSERT_TRUE(decoded.ok()) << decoded.status();
    EXPECT_EQ(decoded->kind, LoggedBatch::Kind::kPredictions);
    EXPECT_TRUE(decoded->tracked());
    EXPECT_EQ(decoded->batch.ids, batch.ids);
    EXPECT_EQ(decoded->batch.labels, batch.labels);
    EXPECT_EQ(decoded->batch.probabilities, batch.probabilities);
    EXPECT_EQ(decoded->batch.rows, 2);
    EXPECT_EQ(decoded->duplicate_predictions, 4);
    // Of two that are as probable, the first.
    EXPECT_THAT(logged.predicted_classes, ElementsAre(1, 0));
    EXPECT_EQ(decoded->predicted_classes, logged.predicted_classes);
  }
}

TEST(LoggedBatchTest, ABatchOfKnownPredictionsOnlyComesBack) {
  LoggedBatch logged;
  logged.kind = LoggedBatch::Kind::kPredictions;
  logged.batch.class_count = 2;
  logged.duplicate_predictions = 4;
  const auto decoded = DecodeLogged(EncodeLogged(logged, {}), 2);
  ASSERT_TRUE(decoded.ok()) << decoded.status();
  EXPECT_EQ(decoded->kind, LoggedBatch::Kind::kPredictions);
  EXPECT_FALSE(decoded->tracked());
  EXPECT_EQ(decoded->duplicate_predictions, 4);
}

TEST(LoggedBatchTest, LabelsAreRecovered) {
  LoggedBatch logged;
  logged.kind = LoggedBatch::Kind::kLabels;
  logged.batch.ids = {HashId("a"), HashId("b")};
  logged.batch.labels = {1, 0};
  logged.label_counts = {.matched = 2, .repeated = 3, .conflicting = 4, .late = 5, .unknown = 6};
  logged.label_classes = {.matched = {1, 1}, .conflicting = {0, 1, 1, 0}, .late = {1, 1, 1, 1, 0}};
  const auto decoded = DecodeLogged(EncodeLogged(logged, {}), 2);
  ASSERT_TRUE(decoded.ok()) << decoded.status();
  EXPECT_EQ(decoded->kind, LoggedBatch::Kind::kLabels);
  EXPECT_TRUE(decoded->tracked());
  EXPECT_EQ(decoded->batch.ids, logged.batch.ids);
  EXPECT_THAT(decoded->batch.labels, ElementsAre(1, 0));
  EXPECT_EQ(decoded->label_counts.matched, 2);
  EXPECT_EQ(decoded->label_counts.repeated, 3);
  EXPECT_EQ(decoded->label_counts.conflicting, 4);
  EXPECT_EQ(decoded->label_counts.late, 5);
  EXPECT_EQ(decoded->label_counts.unknown, 6);
  EXPECT_TRUE(decoded->label_classes.matched.empty());
  EXPECT_EQ(decoded->label_classes.conflicting, logged.label_classes.conflicting);
  EXPECT_EQ(decoded->label_classes.late, logged.label_classes.late);
}

TEST(LoggedBatchTest, MaturedPredictionsAreRecovered) {
  LoggedBatch logged;
  logged.kind = LoggedBatch::Kind::kMatured;
  logged.batch = Batch({0.25, 0.75, 0.5, 0.5});
  logged.through_log_id = 17;
  logged.missing_predicted_classes = {0, 1, 1};
  const auto decoded = DecodeLogged(EncodeLogged(logged, {}), 2);
  ASSERT_TRUE(decoded.ok()) << decoded.status();
  EXPECT_EQ(decoded->kind, LoggedBatch::Kind::kMatured);
  EXPECT_FALSE(decoded->tracked());
  EXPECT_EQ(decoded->batch.probabilities, logged.batch.probabilities);
  EXPECT_EQ(decoded->through_log_id, 17);
  EXPECT_THAT(decoded->missing_predicted_classes, ElementsAre(0, 1, 1));
}

TEST(LoggedBatchTest, DamageIsDataLoss) {
  const std::string logged = EncodeLogged(Logged(Batch({0.25, 0.75, 0.5, 0.5})), {});
  EXPECT_EQ(DecodeLogged(logged, 3).status().code(), absl::StatusCode::kDataLoss);
  EXPECT_EQ(DecodeLogged(logged.substr(0, 5), 2).status().code(), absl::StatusCode::kDataLoss);
  EXPECT_EQ(DecodeLogged("", 2).status().code(), absl::StatusCode::kDataLoss);
  const auto code = [](const LoggedBatch& damaged) {
    return DecodeLogged(EncodeLogged(damaged, {}), 2).status().code();
  };
  DecodedBatch label = Batch({0.25, 0.75, 0.5, 0.5});
  label.labels[0] = 2;
  EXPECT_EQ(code(Logged(label)), absl::StatusCode::kDataLoss);
  LoggedBatch ids = Logged(Batch({0.25, 0.75, 0.5, 0.5}));
  ids.kind = LoggedBatch::Kind::kPredictions;
  ids.batch.ids = {HashId("a")};
  EXPECT_EQ(code(ids), absl::StatusCode::kDataLoss);
  LoggedBatch labels;
  labels.kind = LoggedBatch::Kind::kLabels;
  labels.batch.labels = {1};
  EXPECT_EQ(code(labels), absl::StatusCode::kDataLoss);
  LoggedBatch late;
  late.kind = LoggedBatch::Kind::kLabels;
  late.label_counts = {.conflicting = 1, .late = 1};
  EXPECT_EQ(code(late), absl::StatusCode::kOk) << "from before the classes were kept";
  late.label_classes.late = {1, 1};
  EXPECT_EQ(code(late), absl::StatusCode::kDataLoss);
  late.label_classes.late = {2};
  EXPECT_EQ(code(late), absl::StatusCode::kDataLoss);
  late.label_classes.late = {1};
  EXPECT_EQ(code(late), absl::StatusCode::kOk);
  late.label_classes.conflicting = {-1};
  EXPECT_EQ(code(late), absl::StatusCode::kDataLoss);
  LoggedBatch matured = Logged(Batch({0.25, 0.75, 0.5, 0.5}));
  matured.kind = LoggedBatch::Kind::kMatured;
  matured.missing_predicted_classes = {2};
  EXPECT_EQ(code(matured), absl::StatusCode::kDataLoss);
}

TEST(LoggedBatchTest, NumbersThatCannotBeAreDataLoss) {
  const auto code = [](const std::function<void(LoggedBatch&)>& change) {
    LoggedBatch logged = Logged(Batch({0.25, 0.75, 0.5, 0.5}));
    change(logged);
    return DecodeLogged(EncodeLogged(logged, {}), 2).status().code();
  };
  EXPECT_EQ(code([](LoggedBatch&) {}), absl::StatusCode::kOk);
  for (const double value : {std::nan(""), -0.25, 1.5}) {
    EXPECT_EQ(code([value](LoggedBatch& logged) { logged.batch.probabilities[1] = value; }),
              absl::StatusCode::kDataLoss)
        << value;
  }
  EXPECT_EQ(code([](LoggedBatch& logged) { logged.batch.dropped_rows = -1; }),
            absl::StatusCode::kDataLoss);
}

}  // namespace
}  // namespace calibd::server
