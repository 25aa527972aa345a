#ifndef CALIBD_SERVER_INGEST_SETTLEMENT_H_
#define CALIBD_SERVER_INGEST_SETTLEMENT_H_

#include <cstdint>

#include "absl/status/status.h"
#include "server/rows/log_row.h"
#include "server/rows/prediction_tracker.h"

namespace calibd::server {

// The outcome of a batch.
struct Settlement {
  enum class Kind {
    // The batch was counted now and is visible to readers.
    kAccepted,
    // The batch was settled before, so it changed nothing.
    kDuplicate,
    // The batch is invalid: it changed nothing but used up its number. status gives the reason.
    kRejected,
    // The batch was not accepted, and its number is not used up: a gap, a fence, other content, a
    // deleted model, a full disk, or too many pending predictions. status gives the reason.
    kRefused,
  };
  Kind kind = Kind::kRefused;
  absl::Status status;
  // Number of accepted predictions of the batch, and of duplicates.
  std::int64_t accepted_rows = 0;
  std::int64_t duplicate_rows = 0;
  // Number of predictions and labels of a rejected batch, or of skipped rows.
  std::int64_t rejected_rows = 0;
  SkippedRows skipped;
  // Outcomes of the labels by id of an accepted batch.
  LabelCounts labels;
  // The number expected next, if a producer was opened.
  std::int64_t next_sequence = 0;
};

}  // namespace calibd::server

#endif  // CALIBD_SERVER_INGEST_SETTLEMENT_H_
