#ifndef CALIBD_CLIENT_CLI_REPORTS_ESTIMATE_REPORT_H_
#define CALIBD_CLIENT_CLI_REPORTS_ESTIMATE_REPORT_H_

#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "calibd/v1/calibration_service.pb.h"

namespace calibd::cli {

// The names of all estimators on the command line, in JSON and in tables, such as "bins".
[[nodiscard]] std::vector<std::string> EstimatorNames();
// name: one of them. Returns its value of the enum.
[[nodiscard]] v1::EstimatorOutcome::Estimator EstimatorOf(const std::string& name);

// How large the error is and by which estimator, a table of all estimators, and how to read it.
[[nodiscard]] std::string DescribeEstimate(const v1::CalibrationErrorEstimate& estimate);

}  // namespace calibd::cli

#endif  // CALIBD_CLIENT_CLI_REPORTS_ESTIMATE_REPORT_H_
