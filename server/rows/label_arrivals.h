#ifndef CALIBD_SERVER_ROWS_LABEL_ARRIVALS_H_
#define CALIBD_SERVER_ROWS_LABEL_ARRIVALS_H_

#include <cstddef>
#include <cstdint>
#include <memory>
#include <vector>

#include "server/rows/prediction_tracker.h"

namespace calibd::server {

// Label counts of the predictions whose most probable class is this one.
struct ClassArrivals {
  PendingCounts pending;
  std::int64_t matured = 0;
  // Matured predictions without a label.
  std::int64_t missing = 0;
  // Labels that arrived after their prediction matured, and labels that contradicted the known one.
  std::int64_t late = 0;
  std::int64_t conflicting = 0;

  [[nodiscard]] std::int64_t predictions() const noexcept { return pending.all + matured; }
  [[nodiscard]] std::int64_t labelled() const noexcept {
    return pending.labelled + matured - missing;
  }
};

// Counts of predictions with an id by the state of their labels; see calibd.v1.LabelArrivals.
struct LabelArrivals {
  std::int64_t predictions = 0;
  std::int64_t duplicate_predictions = 0;
  // Predictions that were sent with their label, and labels that were matched later.
  std::int64_t labelled = 0;
  LabelCounts labels;
  // No label of a row up to this row of the log waits any more.
  std::int64_t ended_waiting_log_id = 0;
  std::int64_t matured = 0;
  std::int64_t missing = 0;
  // One entry for each of the m classes. A change replaces the vector, so readers keep a consistent
  // copy.
  std::shared_ptr<const std::vector<ClassArrivals>> classes;

  [[nodiscard]] std::int64_t pending() const noexcept { return predictions - matured; }
  [[nodiscard]] std::int64_t pending_labelled() const noexcept {
    return labelled - (matured - missing);
  }
};

}  // namespace calibd::server

#endif  // CALIBD_SERVER_ROWS_LABEL_ARRIVALS_H_
