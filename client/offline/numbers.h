#ifndef CALIBD_CLIENT_OFFLINE_NUMBERS_H_
#define CALIBD_CLIENT_OFFLINE_NUMBERS_H_

#include "absl/status/statusor.h"
#include "calibd/core/forecast_cells.h"
#include "calibd/core/run_control.h"
#include "calibd/v1/recalibration.pb.h"

namespace calibd::offline {

// Computes the advice that the server would return for these forecasts of a number. batch: valid,
// the oldest row first. Errors: InvalidArgument for quantiles of one level; FailedPrecondition with
// the number of rows that are needed; Cancelled.
[[nodiscard]] absl::StatusOr<v1::Recalibration> RecalibrateOffline(const NumberForecastKind& kind,
                                                                   const NumberForecastBatch& batch,
                                                                   const RunControl& control);

}  // namespace calibd::offline

#endif  // CALIBD_CLIENT_OFFLINE_NUMBERS_H_
