#ifndef CALIBD_CLIENT_CLI_REPORTS_COMPARE_REPORT_H_
#define CALIBD_CLIENT_CLI_REPORTS_COMPARE_REPORT_H_

#include <string>

#include "calibd/v1/comparison.pb.h"

namespace calibd::cli {

// Says in the first line for each score whether the model is better. Then follow a table of the
// scores, and which observations were compared. model, baseline: their names.
[[nodiscard]] std::string DescribeComparison(const std::string& model, const std::string& baseline,
                                             const v1::ModelComparison& result);

}  // namespace calibd::cli

#endif  // CALIBD_CLIENT_CLI_REPORTS_COMPARE_REPORT_H_
