#include "send_window.h"

#include <algorithm>
#include <cassert>
#include <utility>

#include "absl/strings/str_cat.h"

namespace calibd::client {

void SendWindow::Push(OutgoingBatch batch) {
  assert(!full());
  batch.request.mutable_batch()->set_sequence(next_sequence_++);
  bytes_ += batch.bytes;
  entries_.push_back({std::make_shared<const OutgoingBatch>(std::move(batch))});
}

std::shared_ptr<const OutgoingBatch> SendWindow::TakeNextToWrite() {
  assert(!all_written());
  Entry& entry = entries_[written_++];
  last_taken_is_resent_ = std::exchange(entry.written_before, true);
  return entry.batch;
}

Dropped SendWindow::dropped() const {
  Dropped all;
  for (const Entry& entry : entries_) {
    const v1::Observations& observations = entry.batch->request.batch().observations();
    all.Add({.rows = observations.dropped_rows(), .labels = observations.dropped_labels()});
  }
  return all;
}

absl::Status SendWindow::CheckWritten(const char* what, std::int64_t sequence) const {
  const std::int64_t last = first_sequence() + static_cast<std::int64_t>(written_) - 1;
  if (sequence >= 1 && sequence <= last) return absl::OkStatus();
  return absl::DataLossError(absl::StrCat("the server ", what, " batch ", sequence,
                                          ", expected one from 1 to ", last,
                                          ", the last one sent"));
}

absl::StatusOr<SendWindow::Settled> SendWindow::Acknowledge(std::int64_t sequence) {
  if (absl::Status status = CheckWritten("acknowledged", sequence); !status.ok()) return status;
  Settled settled;
  while (!entries_.empty() && first_sequence() <= sequence) {
    const Entry& entry = entries_.front();
    const bool labels = entry.batch->has_labels();
    (labels ? settled.rejected_labels : settled.rejected_rows) += entry.rejected_rows;
    (labels ? settled.accepted_labels : settled.accepted_rows) +=
        entry.batch->row_count() - entry.rejected_rows;
    bytes_ -= entry.batch->bytes;
    entries_.pop_front();
    --written_;
  }
  return settled;
}

absl::StatusOr<std::shared_ptr<const OutgoingBatch>> SendWindow::Reject(
    std::int64_t sequence, std::optional<std::int64_t> rows) {
  if (absl::Status status = CheckWritten("rejected", sequence); !status.ok()) return status;
  const std::int64_t first = first_sequence();
  if (sequence < first) return std::shared_ptr<const OutgoingBatch>();
  Entry& entry = entries_[static_cast<std::size_t>(sequence - first)];
  if (entry.rejected_rows > 0) return std::shared_ptr<const OutgoingBatch>();
  const std::int64_t all = entry.batch->row_count();
  const std::int64_t predictions = entry.batch->has_labels() ? 0 : all;
  if (rows.has_value() && (*rows < 1 || *rows > predictions)) {
    return absl::DataLossError(absl::StrCat("the server skipped ", *rows, " rows of batch ",
                                            sequence, ", which has ", predictions));
  }
  entry.rejected_rows = rows.value_or(all);
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
