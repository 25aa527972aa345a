#ifndef CALIBD_CLIENT_CLI_REPORTS_LABEL_REPORT_H_
#define CALIBD_CLIENT_CLI_REPORTS_LABEL_REPORT_H_

#include <cstddef>
#include <limits>
#include <string>

#include "calibd/v1/multilabel.pb.h"

namespace calibd::cli {

// A table of the labels: those over the limit first, then the rejected ones, then the others.
// most: the number of labels that are shown.
[[nodiscard]] std::string DescribeLabels(
    const v1::MultilabelCalibration& calibration,
    std::size_t most = std::numeric_limits<std::size_t>::max());

}  // namespace calibd::cli

#endif  // CALIBD_CLIENT_CLI_REPORTS_LABEL_REPORT_H_
