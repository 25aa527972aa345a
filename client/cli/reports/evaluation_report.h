#ifndef CALIBD_CLIENT_CLI_REPORTS_EVALUATION_REPORT_H_
#define CALIBD_CLIENT_CLI_REPORTS_EVALUATION_REPORT_H_

#include <string>

#include "calibd/v1/evaluation.pb.h"
#include "client/cli/reports/report.h"

namespace calibd::cli {

// Returns the complete report: the reading, lenses side by side, estimates, scores, binned errors,
// the other tests, and the reliability diagram as a table.
[[nodiscard]] std::string DescribeEvaluation(const v1::Evaluation& evaluation);

}  // namespace calibd::cli

#endif  // CALIBD_CLIENT_CLI_REPORTS_EVALUATION_REPORT_H_
