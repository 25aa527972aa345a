#ifndef CALIBD_SERVER_INGEST_SETTLEMENT_H_
#define CALIBD_SERVER_INGEST_SETTLEMENT_H_

#include <cstdint>

#include "absl/status/status.h"
#include "server/state/prediction_tracker.h"

namespace calibd::server {

// The outcome of a batch.
struct Settlement {
  enum class Kind {
    // Counted now, and visible to readers.
    kAccepted,
    // Settled before: counted once, not again.
    kDuplicate,
    // Invalid: changed nothing but used up its number; status says why.
    kRejected,
    // Not taken, and its number not used up: a gap, a fence, other content, a
    // deleted model, a full disk, too many predictions that wait. status says which.
    kRefused,
  };
  Kind kind = Kind::kRefused;
  absl::Status status;
  // Predictions of the batch: taken, and not taken as they were known.
  std::int64_t accepted_rows = 0;
  std::int64_t duplicate_rows = 0;
  // Predictions and labels of a batch that was rejected.
  std::int64_t rejected_rows = 0;
  // Labels by id of a batch that was accepted.
  LabelCounts labels;
  // The number expected next when a producer was opened.
  std::int64_t next_sequence = 0;
};

}  // namespace calibd::server

#endif  // CALIBD_SERVER_INGEST_SETTLEMENT_H_
