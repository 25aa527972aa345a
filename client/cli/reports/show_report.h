#ifndef CALIBD_CLIENT_CLI_REPORTS_SHOW_REPORT_H_
#define CALIBD_CLIENT_CLI_REPORTS_SHOW_REPORT_H_

#include <string>

#include "calibd/v1/calibration_service.pb.h"
#include "google/protobuf/timestamp.pb.h"

namespace calibd::cli {

// Describes a model in at most 17 lines of 100 characters, in this order: the verdict and since
// when; how far off the model is; where; whether it changed; how certain that is; the data; what to
// do next. Names are printed without their control characters.
[[nodiscard]] std::string DescribeShow(const v1::GetCalibrationResponse& response,
                                       const google::protobuf::Timestamp& now);

// The reliability diagram of the top label as a table; of forecasts of a number, how often outcomes
// fall into each cell.
[[nodiscard]] std::string DescribeBins(const v1::GetCalibrationResponse& response);

// The error in one phrase, such as "off by 5.4 points (4.2 to 6.8; limit 2)"; empty without a
// labelled prediction.
[[nodiscard]] std::string OffBy(const v1::CalibrationError& error);
// "2026-01-31 12:30 UTC".
[[nodiscard]] std::string MinuteText(const google::protobuf::Timestamp& time);

// Both findings of a verdict, such as "OVER_LIMIT (recent), MISCALIBRATED" or "OVER_LIMIT in group
// eu, NOT_REJECTED". error: of the model itself.
[[nodiscard]] std::string VerdictText(const v1::Verdict& verdict,
                                      const v1::CalibrationError& error);

}  // namespace calibd::cli

#endif  // CALIBD_CLIENT_CLI_REPORTS_SHOW_REPORT_H_
