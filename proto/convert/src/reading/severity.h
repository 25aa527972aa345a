#ifndef CALIBD_CONVERT_READING_SEVERITY_H_
#define CALIBD_CONVERT_READING_SEVERITY_H_

#include "calibd/convert/reading.h"
#include "calibd/v1/calibration_service.pb.h"

namespace calibd::convert {

// Reading.severity, in [0, 8). interval: HowBad.interval, or without a value if that is unset.
[[nodiscard]] double SeverityOf(const v1::GetCalibrationResponse& answer,
                                const v1::ErrorInterval& interval);
// The severity of rows that are evaluated once.
[[nodiscard]] double SeverityOf(const EvaluationVerdict& verdict,
                                const v1::ErrorInterval& interval);

}  // namespace calibd::convert

#endif  // CALIBD_CONVERT_READING_SEVERITY_H_
