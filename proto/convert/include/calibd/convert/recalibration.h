#ifndef CALIBD_CONVERT_RECALIBRATION_H_
#define CALIBD_CONVERT_RECALIBRATION_H_

#include <cstddef>

#include "absl/status/statusor.h"
#include "calibd/core/recalibration.h"
#include "calibd/v1/recalibration.pb.h"

namespace calibd::convert {

inline constexpr int kRecalibrationMapVersion = 1;

// The result is valid for the message's class_count. Errors: InvalidArgument that names the field.
[[nodiscard]] absl::StatusOr<RecalibrationMap> FromProto(const v1::RecalibrationMap& proto);

// Does not set the first observation and the time.
[[nodiscard]] v1::Recalibration ToProto(const RecalibrationAdvice& advice, std::size_t class_count);

}  // namespace calibd::convert

#endif  // CALIBD_CONVERT_RECALIBRATION_H_
