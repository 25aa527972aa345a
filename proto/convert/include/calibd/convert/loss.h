#ifndef CALIBD_CONVERT_LOSS_H_
#define CALIBD_CONVERT_LOSS_H_

#include "absl/status/statusor.h"
#include "calibd/core/calibration_loss.h"
#include "calibd/v1/loss.pb.h"

namespace calibd::convert {

// The forecasts of a request. The view ends with the request. A request without forecasts has no
// rows. Cost: O(1).
[[nodiscard]] ForecastBatch ForecastsOf(const v1::ComputeLossRequest& request);
// Errors: InvalidArgument that begins with the field and a space.
[[nodiscard]] absl::StatusOr<LossOptions> FromProto(const v1::ComputeLossRequest& request);
// RbfKernel if no kind is set.
[[nodiscard]] OutcomeKernel FromProto(const v1::OutcomeKernel& proto);
[[nodiscard]] v1::OutcomeKernel ToProto(const OutcomeKernel& kernel);
// The result lacks the values of features and groups.
[[nodiscard]] v1::Condition ToProto(const Condition& condition);
[[nodiscard]] v1::ComputeLossResponse ToProto(const CalibrationLoss& loss);

}  // namespace calibd::convert

#endif  // CALIBD_CONVERT_LOSS_H_
