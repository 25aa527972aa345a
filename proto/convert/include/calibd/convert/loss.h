#ifndef CALIBD_CONVERT_LOSS_H_
#define CALIBD_CONVERT_LOSS_H_

#include <cstddef>

#include "absl/status/statusor.h"
#include "calibd/core/calibration_loss.h"
#include "calibd/v1/loss.pb.h"

namespace calibd::convert {

// width: the number of values of a forecast, or of classes. The options ask for no gradient.
// Errors: InvalidArgument that begins with the field and a space.
[[nodiscard]] absl::StatusOr<LossOptions> FromProto(const v1::LossSettings& settings,
                                                    std::size_t width);
// RbfKernel if no kind is set.
[[nodiscard]] OutcomeKernel FromProto(const v1::OutcomeKernel& proto);
[[nodiscard]] v1::OutcomeKernel ToProto(const OutcomeKernel& kernel);
// The result lacks the values of features and groups.
[[nodiscard]] v1::Condition ToProto(const Condition& condition);
// The result has no gradient.
[[nodiscard]] v1::CalibrationLoss ToProto(const CalibrationLoss& loss);

}  // namespace calibd::convert

#endif  // CALIBD_CONVERT_LOSS_H_
