#ifndef CALIBD_CONVERT_READING_REFERENCE_TEXT_H_
#define CALIBD_CONVERT_READING_REFERENCE_TEXT_H_

#include <string>

#include "calibd/v1/calibration_service.pb.h"

namespace calibd::convert {

// Whether the error changed since the reference period: "since the reference (rows 1 to 3000): yes,
// ...". Empty for a model without a reference.
[[nodiscard]] std::string ReferenceText(const v1::GetCalibrationResponse& answer);

}  // namespace calibd::convert

#endif  // CALIBD_CONVERT_READING_REFERENCE_TEXT_H_
