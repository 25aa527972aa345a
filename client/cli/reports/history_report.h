#ifndef CALIBD_CLIENT_CLI_REPORTS_HISTORY_REPORT_H_
#define CALIBD_CLIENT_CLI_REPORTS_HISTORY_REPORT_H_

#include <string>
#include <vector>

#include "calibd/v1/calibration_service.pb.h"

namespace calibd::cli {

// Returns the changes of an update and what it began anew, in one line without its end.
[[nodiscard]] std::string DescribeUpdate(const v1::ModelUpdate& update);

// Returns a table with a row for each bucket and one for all of them, followed by the updates of
// the model. verbose: with the estimates of the SKCE, the scores and the evidence. labels: names of
// the labels of a model of several labels that have columns; empty: the one furthest off in each
// row has one.
[[nodiscard]] std::string DescribeHistory(const v1::GetHistoryResponse& history, bool verbose,
                                          const std::vector<std::string>& labels = {});

// Returns CSV: a line of names, which are those of v1.HistoryBucket's fields, "gap"
// (mean_confidence - accuracy), the ends of the intervals of ece and gap, and the error of class 1
// with its interval, and a line for each bucket. For a model of several labels, also the first
// label of each bucket, which is the one furthest off, and its gap with its interval. Unset values
// are empty. Numbers can be read back as the same doubles.
[[nodiscard]] std::string HistoryCsv(const v1::GetHistoryResponse& history);

}  // namespace calibd::cli

#endif  // CALIBD_CLIENT_CLI_REPORTS_HISTORY_REPORT_H_
