#ifndef CALIBD_CLIENT_SRC_BATCH_BUILDER_H_
#define CALIBD_CLIENT_SRC_BATCH_BUILDER_H_

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string_view>
#include <vector>

#include "absl/status/statusor.h"
#include "calibd/client/observation_stream.h"
#include "calibd/v1/ingest_service.pb.h"

namespace calibd::client {

// A batch to be sent: the message and the caller's numbers of its predictions or labels by id.
struct OutgoingBatch {
  v1::StreamObservationsRequest request;
  std::vector<std::int64_t> row_numbers;
  // Upper bound of the serialized size of its rows.
  std::size_t bytes = 0;

  [[nodiscard]] std::int64_t sequence() const { return request.batch().sequence(); }
  [[nodiscard]] std::int64_t row_count() const {
    return static_cast<std::int64_t>(row_numbers.size());
  }
  [[nodiscard]] bool has_labels() const { return request.batch().has_labels(); }
};

// What was dropped before sending: predictions, and labels by id.
struct Dropped {
  std::int64_t rows = 0;
  std::int64_t labels = 0;

  [[nodiscard]] bool any() const { return rows > 0 || labels > 0; }
  void Add(const Dropped& other) {
    rows += other.rows;
    labels += other.labels;
  }
};

// One prediction; T: float or double. The views must outlive the call that they are passed to.
template <typename T>
struct PredictionRow {
  PredictionKind kind;
  // class_count values.
  std::span<const T> values;
  // Id of the prediction; empty without one.
  std::string_view id;
  // Value of the model's group tag; empty without one.
  std::string_view group;
  // One label, or the truths of all labels of a model with several; empty if they come later.
  std::span<const std::int32_t> labels;
  // Time of the prediction.
  std::optional<std::chrono::sys_seconds> time;
  // The values of the baseline; empty without a baseline.
  std::span<const T> baseline{};
  // The features of the case; empty for a model without features.
  std::span<const double> features{};
};

// A forecast of a number. The fields are those of PredictionRow.
struct ForecastRow {
  std::span<const double> values;
  std::string_view id;
  std::string_view group;
  std::optional<double> outcome;
  std::optional<std::chrono::sys_seconds> time;
  std::span<const double> features{};
};

// The label of a prediction that was sent before, or all its truths; or the outcome of a forecast.
struct LabelRow {
  std::string_view id;
  std::span<const std::int32_t> labels;
};
struct OutcomeRow {
  std::string_view id;
  double outcome;
};

// Number of values of a forecast of this kind.
[[nodiscard]] std::size_t WidthOf(const v1::Forecast& forecast);

// Gathers rows into batches that fit the server's limits. Not thread-safe.
class BatchBuilder {
 public:
  // max_rows: the caller's limit, or 0. Errors: FailedPrecondition if no row fits into a message.
  [[nodiscard]] static absl::StatusOr<BatchBuilder> Create(
      const v1::StreamObservationsResponse::Opened& limits, std::int32_t max_rows);

  // True if the row fits into a batch of its own. Row: PredictionRow, ForecastRow, LabelRow or
  // OutcomeRow, here and below.
  template <typename Row>
  [[nodiscard]] bool Fits(const Row& row) const;

  // True if a row must go into another batch than the gathered rows, because there is no room or
  // its kind of content differs.
  template <typename Row>
  [[nodiscard]] bool NeedsNewBatch(const Row& row) const;

  // row: must be valid. Precondition: !NeedsNewBatch(row).
  template <typename Row>
  void Add(const Row& row, std::int64_t row_number);

  // Counts dropped predictions and labels, together with the gathered rows.
  void AddDropped(const Dropped& dropped) { dropped_.Add(dropped); }
  [[nodiscard]] const Dropped& dropped() const { return dropped_; }

  // Whether there is nothing to send: no row, and nothing that was dropped.
  [[nodiscard]] bool empty() const { return batch_.row_numbers.empty() && !dropped_.any(); }

  // Returns the batch without its number. A batch of labels leaves the counts of what was dropped
  // to the next batch, which has no rows if no prediction follows. Precondition: !empty().
  [[nodiscard]] OutgoingBatch Take();

 private:
  BatchBuilder(std::size_t max_rows, std::size_t max_bytes, std::size_t label_bytes)
      : max_rows_(max_rows), max_bytes_(max_bytes), label_bytes_(label_bytes) {}

  std::size_t max_rows_;
  // Maximum serialized size of the rows of one batch.
  std::size_t max_bytes_;
  // Maximum serialized size of a label, or of a truth of a model of several labels.
  std::size_t label_bytes_;
  OutgoingBatch batch_;
  Dropped dropped_;
};

}  // namespace calibd::client

#endif  // CALIBD_CLIENT_SRC_BATCH_BUILDER_H_
