#ifndef CALIBD_SERVER_INGEST_LOGGED_BATCH_H_
#define CALIBD_SERVER_INGEST_LOGGED_BATCH_H_

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "absl/status/statusor.h"
#include "server/ingest/decode.h"
#include "server/state/model.h"
#include "server/state/producer_cursors.h"

namespace calibd::server {

// A row of the log: what it does to its model follows from it alone.
struct LoggedBatch {
  enum class Kind {
    // No batch: position says which producer was opened with which epoch.
    kOpened,
    // Invalid: used up its number.
    kRejected,
    kObservations,
    // batch holds those whose ids were new.
    kPredictions,
    // batch holds those that matched.
    kLabels,
    // Made by calibd. batch holds the predictions with a label, without their ids.
    kMatured,
    // An alarm was dealt with. batch is empty.
    kAcknowledgement,
  };
  Kind kind = Kind::kRejected;
  DecodedBatch batch;
  // Of a row that was decoded: whose batch it is.
  std::optional<ProducerPosition> position;
  // kPredictions: those whose ids were known, and the predicted class of each of the others.
  std::int64_t duplicate_predictions = 0;
  std::vector<std::int32_t> predicted_classes;
  // kLabels. The classes of those that matched are not stored, as what waits at a start is counted
  // then; none of the others in a row of before they were.
  LabelCounts label_counts;
  LabelClasses label_classes;
  // kMatured: all predictions up to this row have, and of those without a label the
  // predicted classes.
  std::int64_t through_log_id = 0;
  std::vector<std::int32_t> missing_predicted_classes;
  // kAcknowledgement
  std::int64_t alarm_id = 0;
  std::string note;
  // When it was appended, see LogClock.
  std::chrono::microseconds elapsed{};

  // Whether the row is kept for the tracker of predictions.
  [[nodiscard]] bool tracked() const noexcept {
    return (kind == Kind::kPredictions || kind == Kind::kLabels) && !batch.ids.empty();
  }
};

// As the client sent it.
[[nodiscard]] LoggedBatch MakeLoggedBatch(DecodedBatch batch);

// What the store holds of a row, a store.v1.LoggedBatch, without `elapsed`. May throw bad_alloc.
[[nodiscard]] std::string EncodeLogged(const LoggedBatch& logged,
                                       const std::optional<ProducerPosition>& position);
// Completes an encoded row.
void AppendElapsed(std::chrono::microseconds elapsed, std::string& encoded);

// Errors: DataLoss when it is no row of a model of class_count
// classes.
[[nodiscard]] absl::StatusOr<LoggedBatch> DecodeLogged(std::string_view data,
                                                       std::size_t class_count);

// Does to the model's state what the row says. On the model's strand, in the order of the log.
// time: of the log. May throw bad_alloc, and then only a start can go on with the log.
void Apply(const LoggedBatch& logged, ModelSnapshot::Time time, Model& model);

}  // namespace calibd::server

#endif  // CALIBD_SERVER_INGEST_LOGGED_BATCH_H_
