#ifndef CALIBD_CLIENT_SRC_SEND_WINDOW_H_
#define CALIBD_CLIENT_SRC_SEND_WINDOW_H_

#include <cstddef>
#include <cstdint>
#include <deque>
#include <memory>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "batch_builder.h"

namespace calibd::client {

// The unsettled batches of a stream, and the number of them written on the current
// connection. It makes a resend exact: batches keep their numbers, and a
// new connection starts again at the oldest that was not acknowledged. Holds no
// lock; the stream does.
class SendWindow {
 public:
  // next_sequence: the number of the first batch. capacity >= 1.
  SendWindow(std::int64_t next_sequence, std::size_t capacity)
      : capacity_(capacity), next_sequence_(next_sequence) {}

  [[nodiscard]] bool full() const { return entries_.size() >= capacity_; }
  [[nodiscard]] bool empty() const { return entries_.empty(); }
  [[nodiscard]] bool all_written() const { return written_ == entries_.size(); }
  // Number of the newest batch, or one less than the first number if there is no batch yet.
  [[nodiscard]] std::int64_t last_sequence() const { return next_sequence_ - 1; }

  // Numbers a batch and takes it. Precondition: !full().
  void Push(OutgoingBatch batch);

  // The next batch for this connection, which counts as written from now on.
  // Precondition: !all_written().
  [[nodiscard]] std::shared_ptr<const OutgoingBatch> TakeNextToWrite();
  // True when the last one taken has been written on an earlier connection too.
  [[nodiscard]] bool last_taken_is_resent() const { return last_taken_is_resent_; }

  // Predictions and labels by id settled by an acknowledgement.
  struct Settled {
    std::int64_t accepted_rows = 0;
    std::int64_t rejected_rows = 0;
    std::int64_t accepted_labels = 0;
    std::int64_t rejected_labels = 0;
  };
  // Settles every batch up to and including `sequence`. An old number settles
  // nothing. Errors: Internal when the number was not written on this connection.
  [[nodiscard]] absl::StatusOr<Settled> Acknowledge(std::int64_t sequence);

  // Marks a batch as rejected; it settles with its acknowledgement. Returns it,
  // or null when it is settled or marked already.
  // Errors: Internal when the number was not written on this connection.
  [[nodiscard]] absl::StatusOr<std::shared_ptr<const OutgoingBatch>> Reject(std::int64_t sequence);

  // A new connection: everything is to be written again. expected: the number
  // that the server expects next.
  // Errors: DataLoss when the server forgot batches that it acknowledged;
  // Aborted when it has batches that this stream never sent.
  [[nodiscard]] absl::Status Reopen(std::int64_t expected);

 private:
  struct Entry {
    std::shared_ptr<const OutgoingBatch> batch;
    bool rejected = false;
    bool written_before = false;
  };

  [[nodiscard]] std::int64_t first_sequence() const {
    return next_sequence_ - static_cast<std::int64_t>(entries_.size());
  }

  std::size_t capacity_;
  // Number of the next batch to be pushed. entries_ holds those just below it.
  std::int64_t next_sequence_;
  std::deque<Entry> entries_;
  // The first written_ entries were written on this connection.
  std::size_t written_ = 0;
  bool last_taken_is_resent_ = false;
};

}  // namespace calibd::client

#endif  // CALIBD_CLIENT_SRC_SEND_WINDOW_H_
