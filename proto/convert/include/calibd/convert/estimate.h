#ifndef CALIBD_CONVERT_ESTIMATE_H_
#define CALIBD_CONVERT_ESTIMATE_H_

#include <cstddef>

#include "absl/status/statusor.h"
#include "calibd/core/estimator_selection.h"
#include "calibd/v1/calibration_service.pb.h"

namespace calibd::convert {

// Converts everything except an unset seed. Errors: InvalidArgument whose message begins with the
// field and a space.
[[nodiscard]] absl::StatusOr<SelectionOptions> FromProto(
    const v1::EstimateCalibrationErrorRequest& request, std::size_t class_count);

// options: the options of the selection, with a seed. The result lacks what was left out, and the
// provenance except the lens.
[[nodiscard]] v1::CalibrationErrorEstimate ToProto(const SelectionOptions& options,
                                                   const SelectionResult& selected);

}  // namespace calibd::convert

#endif  // CALIBD_CONVERT_ESTIMATE_H_
