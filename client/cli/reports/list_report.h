#ifndef CALIBD_CLIENT_CLI_REPORTS_LIST_REPORT_H_
#define CALIBD_CLIENT_CLI_REPORTS_LIST_REPORT_H_

#include <cstddef>
#include <string>

#include "calibd/v1/calibration_service.pb.h"

namespace calibd::cli {

// A table of all models, with a mark for active alarms and acknowledged errors, which the verdict
// may not name, and the result of e-BH over them. false_discovery_rate: as in the request.
[[nodiscard]] std::string DescribeVerdicts(const v1::ListVerdictsResponse& response,
                                           double false_discovery_rate);

// The table of DescribeVerdicts for a terminal of this width in characters, >= 40: the verdict and
// the error come first and are broken into lines. The columns that do not fit are left out, and the
// last line names them. No line is longer than the width.
[[nodiscard]] std::string DescribeVerdictsWithin(std::size_t width,
                                                 const v1::ListVerdictsResponse& response,
                                                 double false_discovery_rate);

}  // namespace calibd::cli

#endif  // CALIBD_CLIENT_CLI_REPORTS_LIST_REPORT_H_
