#include "send_window.h"

#include <algorithm>
#include <cassert>
#include <utility>

#include "absl/strings/str_cat.h"

namespace calibd::client {

void SendWindow::Push(OutgoingBatch batch) {
  assert(!full());
  batch.request.mutable_batch()->set_sequence(next_sequence_++);
  entries_.push_back({std::make_shared<const OutgoingBatch>(std::move(batch))});
}

std::shared_ptr<const OutgoingBatch> SendWindow::TakeNextToWrite() {
  assert(!all_written());
  Entry& entry = entries_[written_++];
  last_taken_is_resent_ = std::exchange(entry.written_before, true);
  return entry.batch;
}

absl::StatusOr<SendWindow::Settled> SendWindow::Acknowledge(std::int64_t sequence) {
  const std::int64_t written_up_to = first_sequence() + static_cast<std::int64_t>(written_) - 1;
  if (sequence > written_up_to) {
    return absl::InternalError(absl::StrCat("the server acknowledged batch ", sequence,
                                            ", but the last one sent is ", written_up_to));
  }
  Settled settled;
  while (!entries_.empty() && first_sequence() <= sequence) {
    const Entry& entry = entries_.front();
    const bool labels = entry.batch->has_labels();
    (labels ? settled.rejected_labels : settled.rejected_rows) += entry.rejected_rows;
    (labels ? settled.accepted_labels : settled.accepted_rows) +=
        entry.batch->row_count() - entry.rejected_rows;
    entries_.pop_front();
    --written_;
  }
  return settled;
}

absl::StatusOr<std::shared_ptr<const OutgoingBatch>> SendWindow::Reject(
    std::int64_t sequence, std::optional<std::int64_t> rows) {
  const std::int64_t first = first_sequence();
  if (sequence >= first + static_cast<std::int64_t>(written_)) {
    return absl::InternalError(
        absl::StrCat("the server rejected batch ", sequence, ", which was not sent"));
  }
  if (sequence < first) return std::shared_ptr<const OutgoingBatch>();
  Entry& entry = entries_[static_cast<std::size_t>(sequence - first)];
  if (entry.rejected_rows > 0) return std::shared_ptr<const OutgoingBatch>();
  const std::int64_t all = entry.batch->row_count();
  entry.rejected_rows = std::min(rows.value_or(all), all);
  return entry.batch;
}

absl::Status SendWindow::Reopen(std::int64_t expected) {
  if (expected < first_sequence()) {
    return absl::DataLossError(absl::StrCat("the server expects batch ", expected,
                                            ", but it has acknowledged all up to ",
                                            first_sequence() - 1, ": it has lost state"));
  }
  if (expected > next_sequence_) {
    return absl::AbortedError(absl::StrCat("the server expects batch ", expected,
                                           ", but the last one made here is ", last_sequence(),
                                           ": another producer uses the same producer_id"));
  }
  written_ = 0;
  return absl::OkStatus();
}

}  // namespace calibd::client
