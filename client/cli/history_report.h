#ifndef CALIBD_CLI_HISTORY_REPORT_H_
#define CALIBD_CLI_HISTORY_REPORT_H_

#include <string>

#include "calibd/v1/calibration_service.pb.h"

namespace calibd::cli {

// A table with a row for each bucket and one for all of them.
[[nodiscard]] std::string DescribeHistory(const v1::GetHistoryResponse& history);

// A line for each bucket under a line of names, those of v1.HistoryBucket's fields and "gap",
// mean_confidence - accuracy; what is unset is empty. Numbers read back as the same doubles.
[[nodiscard]] std::string HistoryCsv(const v1::GetHistoryResponse& history);

}  // namespace calibd::cli

#endif  // CALIBD_CLI_HISTORY_REPORT_H_
