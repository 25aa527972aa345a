#ifndef CALIBD_CLIENT_SRC_BATCH_BUILDER_H_
#define CALIBD_CLIENT_SRC_BATCH_BUILDER_H_

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "absl/status/statusor.h"
#include "calibd/client/observation_stream.h"
#include "calibd/v1/ingest_service.pb.h"

namespace calibd::client {

// A batch on its way: the message and the caller's number of each of its rows.
struct OutgoingBatch {
  v1::StreamObservationsRequest request;
  std::vector<std::int64_t> row_numbers;

  [[nodiscard]] std::int64_t sequence() const { return request.batch().sequence(); }
  [[nodiscard]] std::int64_t row_count() const {
    return static_cast<std::int64_t>(row_numbers.size());
  }
};

// Gathers rows into batches that fit the server's limits. Not thread-safe.
class BatchBuilder {
 public:
  // max_rows: the caller's own limit, or 0.
  // Errors: FailedPrecondition when not even one row fits into a message.
  [[nodiscard]] static absl::StatusOr<BatchBuilder> Create(
      const v1::StreamObservationsResponse::Opened& limits, std::int32_t max_rows);

  // True when a row of these values must go into another batch than the rows
  // gathered so far: no room, or another kind of numbers. T: float or double.
  template <typename T>
  [[nodiscard]] bool NeedsNewBatch(PredictionKind kind) const;

  // row: class_count valid values. Precondition: !NeedsNewBatch<T>(kind).
  template <typename T>
  void Add(PredictionKind kind, std::span<const T> row, std::int32_t label,
           std::int64_t row_number);

  // Counts a dropped row with the rows gathered.
  void AddDropped() { ++dropped_rows_; }

  [[nodiscard]] bool empty() const { return batch_.row_numbers.empty(); }

  // The batch without its number. Dropped rows stay here until a batch with
  // rows carries them. Precondition: !empty().
  [[nodiscard]] OutgoingBatch Take();

 private:
  BatchBuilder(std::size_t max_double_rows, std::size_t max_float_rows);

  std::size_t max_double_rows_;
  std::size_t max_float_rows_;
  OutgoingBatch batch_;
  std::int64_t dropped_rows_ = 0;
};

}  // namespace calibd::client

#endif  // CALIBD_CLIENT_SRC_BATCH_BUILDER_H_
