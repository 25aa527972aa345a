// The bytes of the histories and cursors in the store, as in store_format_test.cc.
#include <gtest/gtest.h>

#include <chrono>
#include <string>
#include <vector>

#include "calibd/store/v1/store.pb.h"
#include "server/ingest/decode.h"
#include "server/rows/producer_cursors.h"
#include "server/rows/row_codec.h"
#include "server/state/history.h"
#include "server/state/model.h"
#include "unit/server/golden_blob.h"

namespace calibd::server {
namespace {

HistoryBucket Bucket() {
  HistoryBucket bucket;
  bucket.rejected_rows = 300;
  bucket.missing_labels = 4;
  bucket.pairs = {.count = 6, .mean = -0.125, .m2 = 0.3};
  bucket.reliability.bins[7] = {.count = 9, .correct = 5, .confidence = 4.5, .variance = 2.25};
  bucket.reliability.bins[14] = {.count = 3, .correct = 3, .confidence = 2.9, .variance = 0.1};
  bucket.reliability.brier = 3.25;
  bucket.reliability.log_loss = 4.5;
  bucket.watch = {.log10_e_value = -0.5, .max_log10_e_value = 1.5, .drift_log10_statistic = 0.75};
  return bucket;
}

TEST(StoreFormatTest, HistoryBucketsKeepTheirFormat) {
  ExpectGolden("history_bucket", EncodeHistoryBucket(Bucket()));
  const auto read = DecodeHistoryBucket(ReadGolden("history_bucket"));
  ASSERT_TRUE(read.ok()) << read.status();
  EXPECT_TRUE(*read == Bucket());
}

TEST(StoreFormatTest, OpenHistoriesKeepTheirFormat) {
  History history;
  const auto time = History::Time(std::chrono::microseconds(1700000000123456));
  for (int minute = 0; minute < 2; ++minute) {
    history.Advance(time + std::chrono::hours(minute), WatchMark{.log10_e_value = 0.25});
    history.CountRejected(10 + minute);
    history.CountMissing(20 + minute);
    history.counting().pairs.Add(0.5);
  }
  store::v1::HistoryState state;
  history.Save(state);
  ExpectGolden("history_state", state.SerializeAsString());

  ASSERT_TRUE(state.ParseFromString(ReadGolden("history_state")));
  History read;
  ASSERT_TRUE(read.Restore(state, [](const HistoryBucket& /*bucket*/) { return true; }).ok());
  const auto open = read.View(HistoryResolution::kDay, std::nullopt);
  ASSERT_EQ(open.size(), 1U);
  EXPECT_EQ(open[0].start, std::chrono::floor<std::chrono::days>(time));
  EXPECT_EQ(open[0].bucket.rejected_rows, 21);
  EXPECT_EQ(open[0].bucket.missing_labels, 41);
  EXPECT_EQ(open[0].bucket.pairs.count, 2);
}

// The hashes of a producer's batches 63 to 66, one of each kind.
ProducerCursors::Cursor Cursor() {
  v1::Observations doubles;
  for (const double value : {0.1, 0.2, 0.7}) doubles.mutable_probabilities()->add_values(value);
  doubles.add_labels(2);
  v1::Observations floats;
  for (const float value : {0.25F, 0.5F, 0.25F}) {
    floats.mutable_probabilities_float32()->add_values(value);
  }
  floats.add_labels(1);
  v1::Observations predictions = doubles;
  predictions.clear_labels();
  predictions.add_prediction_ids("order-1");
  v1::Labels labels;
  labels.add_prediction_ids("order-1");
  labels.add_labels(2);
  constexpr std::int64_t kTime = 1'767'225'600'000'000;
  ProducerCursors cursors({});
  EXPECT_TRUE(cursors.Open("p", 1, kTime).ok());
  std::int64_t sequence = 63;
  for (const LogRow& batch :
       {Decode(doubles, StoreFormatDeclaration()), Decode(floats, StoreFormatDeclaration()),
        Decode(predictions, StoreFormatDeclaration()), Decode(labels, StoreFormatDeclaration())}) {
    EXPECT_TRUE(batch.validity().ok()) << batch.validity();
    cursors.Advance({.producer_id = "p", .epoch = 1, .sequence = sequence++}, batch.content_hash,
                    kTime);
  }
  ProducerCursors::Cursor cursor = *cursors.Get("p");
  // Unknown, because the first batches are missing.
  EXPECT_EQ(cursor.all_contents, 0U);
  cursor.all_contents = 0x0123456789abcdef;
  cursor.ended = true;
  return cursor;
}

TEST(StoreFormatTest, CursorsAreWrittenUnchanged) {
  const ProducerCursors::ExpiredCursor expired = Cursor();
  ExpectGolden("cursor_complete", EncodeContents(Cursor()));
  ExpectGolden("cursor_expired", EncodeContents(expired));
}

TEST(StoreFormatTest, CursorsAreReadUnchanged) {
  for (const char* const name : {"cursor_complete", "cursor_expired"}) {
    ProducerCursors::Cursor read;
    ASSERT_TRUE(DecodeContents(ReadGolden(name), read));
    EXPECT_EQ(read.all_contents, Cursor().all_contents);
    EXPECT_EQ(read.time_us, Cursor().time_us);
    EXPECT_TRUE(read.ended);
  }
  ProducerCursors::Cursor read;
  ASSERT_TRUE(DecodeContents(ReadGolden("cursor_complete"), read));
  EXPECT_EQ(read.content_hashes, Cursor().content_hashes);
  EXPECT_FALSE(DecodeContents(ReadGolden("cursor_complete").substr(1), read));
  EXPECT_FALSE(DecodeContents("", read));
}

}  // namespace
}  // namespace calibd::server
