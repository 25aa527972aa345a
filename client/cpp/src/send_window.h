#ifndef CALIBD_CLIENT_SRC_SEND_WINDOW_H_
#define CALIBD_CLIENT_SRC_SEND_WINDOW_H_

#include <cstddef>
#include <cstdint>
#include <deque>
#include <memory>
#include <optional>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "batch_builder.h"

namespace calibd::client {

// The unsettled batches of a stream, and the number of them that were written on the current
// connection. It makes resending exact: batches keep their numbers, and a new connection starts
// with the oldest unacknowledged batch. Has no lock: the stream's lock protects it.
class SendWindow {
 public:
  // next_sequence: the number of the first batch. capacity >= 1.
  SendWindow(std::int64_t next_sequence, std::size_t capacity)
      : capacity_(capacity), next_sequence_(next_sequence) {}

  [[nodiscard]] bool full() const { return entries_.size() >= capacity_; }
  [[nodiscard]] bool empty() const { return entries_.empty(); }
  // Number of unsettled batches, their serialized size, and what they report to be dropped.
  [[nodiscard]] std::size_t size() const { return entries_.size(); }
  [[nodiscard]] std::size_t bytes() const { return bytes_; }
  [[nodiscard]] Dropped dropped() const;
  [[nodiscard]] bool all_written() const { return written_ == entries_.size(); }
  // Number of the newest batch, or one less than the first number if there is no batch yet.
  [[nodiscard]] std::int64_t last_sequence() const { return next_sequence_ - 1; }

  // Numbers a batch and stores it. Precondition: !full().
  void Push(OutgoingBatch batch);

  // Returns the next batch for this connection, which is now considered written. Precondition:
  // !all_written().
  [[nodiscard]] std::shared_ptr<const OutgoingBatch> TakeNextToWrite();
  // True if the batch that was taken last was also written on an earlier connection.
  [[nodiscard]] bool last_taken_is_resent() const { return last_taken_is_resent_; }

  // Predictions and labels by id settled by an acknowledgement.
  struct Settled {
    std::int64_t accepted_rows = 0;
    std::int64_t rejected_rows = 0;
    std::int64_t accepted_labels = 0;
    std::int64_t rejected_labels = 0;
  };
  // Settles every batch up to and including `sequence`. An old number settles nothing. Errors:
  // DataLoss if the number was not written on this connection or is below 1.
  [[nodiscard]] absl::StatusOr<Settled> Acknowledge(std::int64_t sequence);

  // Marks a batch, or this many rows of it, as rejected; its acknowledgement settles it. Returns
  // the batch, or null if it is already settled or marked. Errors: DataLoss if the number was not
  // written on this connection or is below 1, or if the batch has fewer predictions than `rows`, or
  // `rows` is below 1.
  [[nodiscard]] absl::StatusOr<std::shared_ptr<const OutgoingBatch>> Reject(
      std::int64_t sequence, std::optional<std::int64_t> rows = std::nullopt);

  // Starts a new connection: all batches have to be written again. expected: the number that the
  // server expects next. Errors: DataLoss if the server lost batches that it acknowledged; Aborted
  // if it has batches that this stream never sent.
  [[nodiscard]] absl::Status Reopen(std::int64_t expected);

 private:
  struct Entry {
    std::shared_ptr<const OutgoingBatch> batch;
    std::int64_t rejected_rows = 0;
    bool written_before = false;
  };

  [[nodiscard]] std::int64_t first_sequence() const {
    return next_sequence_ - static_cast<std::int64_t>(entries_.size());
  }
  // Errors: DataLoss unless the batch with this number was written on this connection or settled.
  // what: the server did to it.
  [[nodiscard]] absl::Status CheckWritten(const char* what, std::int64_t sequence) const;

  std::size_t capacity_;
  // Number of the next batch to be pushed. The entries have the numbers just below it.
  std::int64_t next_sequence_;
  std::deque<Entry> entries_;
  // Sum of the sizes of the entries.
  std::size_t bytes_ = 0;
  // The first written_ entries were written on this connection.
  std::size_t written_ = 0;
  bool last_taken_is_resent_ = false;
};

}  // namespace calibd::client

#endif  // CALIBD_CLIENT_SRC_SEND_WINDOW_H_
