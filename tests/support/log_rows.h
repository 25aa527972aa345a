#ifndef CALIBD_TESTS_SUPPORT_LOG_ROWS_H_
#define CALIBD_TESTS_SUPPORT_LOG_ROWS_H_

#include <string>
#include <utility>
#include <vector>

#include "calibd/core/prediction_batch.h"
#include "server/rows/log_row.h"

namespace calibd::testing {

template <typename Kind>
server::LogRow RowOf(Kind kind) {
  server::LogRow row;
  row.kind = std::move(kind);
  return row;
}

// A row of observations that are counted at once.
inline server::LogRow ObservedRow(const PredictionBatch& batch,
                                  std::vector<std::string> group_values = {}) {
  server::ObservationsRow row;
  row.values.values.assign(batch.probabilities.begin(), batch.probabilities.end());
  row.values.truths.labels.assign(batch.labels.begin(), batch.labels.end());
  row.values.group_values = std::move(group_values);
  row.values.width = batch.class_count;
  return RowOf(std::move(row));
}

}  // namespace calibd::testing

#endif  // CALIBD_TESTS_SUPPORT_LOG_ROWS_H_
