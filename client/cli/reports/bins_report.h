#ifndef CALIBD_CLIENT_CLI_REPORTS_BINS_REPORT_H_
#define CALIBD_CLIENT_CLI_REPORTS_BINS_REPORT_H_

#include <string>

#include "calibd/v1/calibration_service.pb.h"

namespace calibd::cli {

// The reliability diagram of the top label as a table. For forecasts of a number, how often
// outcomes fall into each cell.
[[nodiscard]] std::string DescribeBins(const v1::GetCalibrationResponse& response);

}  // namespace calibd::cli

#endif  // CALIBD_CLIENT_CLI_REPORTS_BINS_REPORT_H_
