#include "server/rows/row_codec.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <chrono>
#include <cmath>
#include <functional>
#include <utility>

namespace calibd::server {
namespace {

using ::testing::ElementsAre;

RowValues Values(std::vector<double> probabilities) {
  RowValues values;
  values.values = std::move(probabilities);
  values.truths.labels = {1, 0};
  values.width = 2;
  return values;
}

LogRow Observations(RowValues values) {
  LogRow row;
  row.kind = ObservationsRow{.values = std::move(values), .dropped = {.rows = 3, .labels = 4}};
  return row;
}

LogRow Observations() { return Observations(Values({0.25, 0.75, 0.5, 0.5})); }

TEST(RowCodecTest, ARowIsReadAsItWasWritten) {
  // The first values are exact in single precision, the others are not.
  for (const auto& values :
       {std::vector<double>{0.25, 0.75, 0.5, 0.5}, std::vector<double>{0.1, 0.9, 0.5, 0.5}}) {
    LogRow row = Observations(Values(values));
    row.position = ProducerPosition{.producer_id = "p", .epoch = 2, .sequence = 7};
    row.content_hash = 5;
    std::string encoded = EncodeRow(row);
    AppendElapsed(std::chrono::microseconds(99), encoded);
    const auto decoded = DecodeRow(encoded, 2);
    ASSERT_TRUE(decoded.ok()) << decoded.status();
    ASSERT_NE(decoded->As<ObservationsRow>(), nullptr);
    EXPECT_FALSE(decoded->tracked());
    EXPECT_EQ(decoded->elapsed, std::chrono::microseconds(99));
    EXPECT_TRUE(decoded->validity().ok());
    EXPECT_EQ(decoded->counted()->values, values);
    EXPECT_EQ(decoded->counted()->single_precision, values[0] == 0.25);
    EXPECT_THAT(decoded->counted()->truths.labels, ElementsAre(1, 0));
    EXPECT_EQ(decoded->rows(), 2);
    EXPECT_EQ(decoded->As<ObservationsRow>()->dropped.rows, 3);
    EXPECT_EQ(decoded->As<ObservationsRow>()->dropped.labels, 4);
    EXPECT_EQ(decoded->position->producer_id, "p");
    EXPECT_EQ(decoded->position->epoch, 2);
    EXPECT_EQ(decoded->position->sequence, 7);
    EXPECT_EQ(decoded->content_hash, 5U);
  }
}

TEST(RowCodecTest, SinglePrecisionNeedsHalfTheSpace) {
  RowValues values = Values(std::vector<double>(2000, 0.5));
  EXPECT_LT(EncodeRow(Observations(values)).size(), 8100U);
  values.values.assign(2000, 0.1);
  EXPECT_GT(EncodeRow(Observations(values)).size(), 16000U);
}

// The hand-written encoding equals that of protobuf.
TEST(RowCodecTest, EncodesLikeProtobuf) {
  for (const std::size_t rows : {1U, 3U, 700U}) {
    for (const bool single : {false, true}) {
      RowValues values;
      values.width = 2;
      for (std::size_t i = 0; i < rows; ++i) {
        const double p = single ? 0.25 : 0.1;
        values.values.insert(values.values.end(), {p, 1 - p});
        // Labels that are encoded in one, two and three bytes.
        values.truths.labels.push_back(static_cast<std::int32_t>((i * 7919) % 100000));
        values.group_values.push_back(std::string(i % 200, 'g'));
        values.times_s.push_back(i % 3 == 0 ? RowValues::kNoTime : 1700000000);
      }
      for (const bool known : {false, single}) {
        values.single_precision = known;
        LogRow row = Observations(values);
        row.position = ProducerPosition{.producer_id = "p", .epoch = 2, .sequence = 7};
        std::string encoded = EncodeRow(row);
        AppendElapsed(std::chrono::microseconds(5), encoded);
        store::v1::LogRow message;
        ASSERT_TRUE(message.ParseFromString(encoded));
        EXPECT_EQ(message.values().float_values().empty(), !single);
        EXPECT_EQ(message.SerializeAsString(), encoded);
        EXPECT_TRUE(std::equal(message.values().prediction_times_s().begin(),
                               message.values().prediction_times_s().end(), values.times_s.begin(),
                               values.times_s.end()));
        EXPECT_TRUE(std::equal(message.values().labels().begin(), message.values().labels().end(),
                               values.truths.labels.begin(), values.truths.labels.end()));
      }
    }
  }
}

// The rest of a truncated row still names the producer.
TEST(RowCodecTest, AnUpdateIsReadAsItWasWritten) {
  LogRow row;
  auto& updated = row.kind.emplace<UpdatedRow>();
  updated.update.model.mutable_monitoring()->set_tolerance(0.01);
  updated.update.mask.add_paths("monitoring.tolerance");
  const auto decoded = DecodeRow(EncodeRow(row), 2);
  ASSERT_TRUE(decoded.ok()) << decoded.status();
  const auto* const read = decoded->As<UpdatedRow>();
  ASSERT_NE(read, nullptr);
  EXPECT_EQ(read->update.model.monitoring().tolerance(), 0.01);
  EXPECT_EQ(read->update.mask.paths(0), "monitoring.tolerance");
  updated.update.mask.add_paths("window");
  EXPECT_FALSE(DecodeRow(EncodeRow(row), 2).ok());
}

TEST(RowCodecTest, TimesAreReadAsTheyWereWritten) {
  RowValues values = Values({0.25, 0.75, 0.5, 0.5});
  values.times_s = {RowValues::kNoTime, 1700000000};
  const auto decoded = DecodeRow(EncodeRow(Observations(values)), 2);
  ASSERT_TRUE(decoded.ok()) << decoded.status();
  EXPECT_EQ(decoded->counted()->time_s(0), RowValues::kNoTime);
  EXPECT_EQ(decoded->counted()->time_s(1), 1700000000);
  for (const std::vector<std::int64_t>& invalid :
       {std::vector<std::int64_t>{1, 2, 3}, std::vector<std::int64_t>{-1, 1}}) {
    values.times_s = invalid;
    EXPECT_FALSE(DecodeRow(EncodeRow(Observations(values)), 2).ok());
  }
}

TEST(RowCodecTest, TheBaselineIsReadAsItWasWritten) {
  // The baseline is in double or single precision, whatever the precision of the model's values.
  for (const auto& baseline :
       {std::vector<double>{0.1, 0.9, 0.5, 0.5}, std::vector<double>{0.5, 0.5, 1, 0}}) {
    for (const double p : {0.25, 0.3}) {
      RowValues values = Values({p, 1 - p, 0.5, 0.5});
      values.baseline_values = baseline;
      const std::string encoded = EncodeRow(Observations(values));
      const auto decoded = DecodeRow(encoded, 2);
      ASSERT_TRUE(decoded.ok()) << decoded.status();
      EXPECT_EQ(decoded->counted()->baseline_values, baseline);
      EXPECT_EQ(decoded->counted()->values, values.values);
      store::v1::LogRow message;
      ASSERT_TRUE(message.ParseFromString(encoded));
      EXPECT_EQ(message.SerializeAsString(), encoded);
    }
  }
  RowValues values = Values({0.25, 0.75, 0.5, 0.5});
  for (const auto& invalid :
       {std::vector<double>{0.5, 0.5}, std::vector<double>{0.5, 0.5, 1, -1}}) {
    values.baseline_values = invalid;
    EXPECT_FALSE(DecodeRow(EncodeRow(Observations(values)), 2).ok());
  }
}

TEST(RowCodecTest, TheProducerComesFirst) {
  LogRow row = Observations();
  row.position = ProducerPosition{.producer_id = "p", .epoch = 2, .sequence = 7};
  store::v1::LogRow message;
  EXPECT_FALSE(ParseRow(EncodeRow(row).substr(0, 20), message));
  EXPECT_EQ(message.producer().producer_id(), "p");
}

TEST(RowCodecTest, DamageIsDataLoss) {
  const std::string encoded = EncodeRow(Observations());
  EXPECT_EQ(DecodeRow(encoded, 3).status().code(), absl::StatusCode::kDataLoss);
  EXPECT_EQ(DecodeRow(encoded.substr(0, 9), 2).status().code(), absl::StatusCode::kDataLoss);
  EXPECT_EQ(DecodeRow("", 2).status().code(), absl::StatusCode::kDataLoss);
  const auto code = [](auto kind) {
    LogRow row;
    row.kind = std::move(kind);
    return DecodeRow(EncodeRow(row), 2).status().code();
  };
  ObservationsRow label{.values = Values({0.25, 0.75, 0.5, 0.5})};
  label.values.truths.labels[0] = 2;
  EXPECT_EQ(code(label), absl::StatusCode::kDataLoss);
  PredictionsRow ids;
  ids.values = Values({0.25, 0.75, 0.5, 0.5});
  ids.ids = {HashId("a")};
  EXPECT_EQ(code(ids), absl::StatusCode::kDataLoss);
  LabelsRow labels;
  labels.truths.labels = {1};
  EXPECT_EQ(code(labels), absl::StatusCode::kDataLoss);
  LabelsRow waiting;
  waiting.waiting_ids = {HashId("a")};
  EXPECT_EQ(code(waiting), absl::StatusCode::kDataLoss) << "without its truth";
  waiting.waiting_truths.labels = {1};
  EXPECT_EQ(code(waiting), absl::StatusCode::kOk);
  waiting.counts.waiting = 2;
  EXPECT_EQ(code(waiting), absl::StatusCode::kDataLoss) << "more wait than there are ids";
  waiting.counts.waiting = 1;
  waiting.ended_waiting_log_id = -1;
  EXPECT_EQ(code(waiting), absl::StatusCode::kDataLoss);
  LabelsRow late;
  late.counts = {.conflicting = 1, .late = 1};
  EXPECT_EQ(code(late), absl::StatusCode::kOk) << "from before the classes were kept";
  late.classes.late = {1, 1};
  EXPECT_EQ(code(late), absl::StatusCode::kDataLoss);
  late.classes.late = {2};
  EXPECT_EQ(code(late), absl::StatusCode::kDataLoss);
  late.classes.late = {1};
  EXPECT_EQ(code(late), absl::StatusCode::kOk);
  late.classes.conflicting = {-1};
  EXPECT_EQ(code(late), absl::StatusCode::kDataLoss);
  MaturedRow matured;
  matured.values = Values({0.25, 0.75, 0.5, 0.5});
  matured.missing_predicted_classes = {2};
  EXPECT_EQ(code(matured), absl::StatusCode::kDataLoss);
  matured.missing_predicted_classes.clear();
  EXPECT_EQ(code(matured), absl::StatusCode::kOk);
  matured.values.id_hashes = {7};
  EXPECT_EQ(code(matured), absl::StatusCode::kDataLoss);
  EXPECT_EQ(code(AcknowledgedRow()), absl::StatusCode::kDataLoss);
  EXPECT_EQ(code(RejectedRow{.rows = -1}), absl::StatusCode::kDataLoss);
}

TEST(RowCodecTest, ImpossibleNumbersAreDataLoss) {
  const auto code = [](const std::function<void(ObservationsRow&)>& change) {
    LogRow row = Observations();
    change(*row.As<ObservationsRow>());
    return DecodeRow(EncodeRow(row), 2).status().code();
  };
  EXPECT_EQ(code([](ObservationsRow&) {}), absl::StatusCode::kOk);
  for (const double value : {std::nan(""), -0.25, 1.5}) {
    EXPECT_EQ(code([value](ObservationsRow& row) { row.values.values[1] = value; }),
              absl::StatusCode::kDataLoss)
        << value;
  }
  EXPECT_EQ(code([](ObservationsRow& row) { row.dropped.rows = -1; }), absl::StatusCode::kDataLoss);
  EXPECT_EQ(code([](ObservationsRow& row) { row.dropped.labels = -1; }),
            absl::StatusCode::kDataLoss);
}

}  // namespace
}  // namespace calibd::server
