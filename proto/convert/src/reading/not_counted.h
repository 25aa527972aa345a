#ifndef CALIBD_CONVERT_READING_NOT_COUNTED_H_
#define CALIBD_CONVERT_READING_NOT_COUNTED_H_

#include <string>

#include "calibd/v1/calibration_service.pb.h"

// Rows that were sent and are not counted.
namespace calibd::convert {

// "300 rows wait, 200 of them labelled; the first counts from 2026-01-31 12:30 UTC on", or "300
// rows wait for labels, the first of which must come by 2026-01-31 12:30 UTC". The time is that of
// the first of them. Empty if no row waits.
[[nodiscard]] std::string WaitingText(const v1::GetCalibrationResponse& answer);
// "producers dropped 30 rows, 5 rows were rejected, 300 rows wait, ...". Empty if no row was sent.
// answer: without a counted row.
[[nodiscard]] std::string NotCountedText(const v1::GetCalibrationResponse& answer);

}  // namespace calibd::convert

#endif  // CALIBD_CONVERT_READING_NOT_COUNTED_H_
