#ifndef CALIBD_CLIENT_CLI_FILES_ROW_FAULTS_H_
#define CALIBD_CLIENT_CLI_FILES_ROW_FAULTS_H_

#include <span>

#include "absl/status/status.h"
#include "calibd/core/violation.h"
#include "client/cli/files/table.h"

namespace calibd::cli {

// The error of invalid rows of a table: InvalidArgument that names the place of each in its file,
// such as "p.csv line 2, column 3 ("cat") is 2". violations: at least one.
[[nodiscard]] absl::Status DescribeFaults(const Table& table,
                                          std::span<const Violation> violations);

// The error of a call of a stream that sends the rows of a table, with the places in the files
// instead of the paths in the call.
[[nodiscard]] absl::Status DescribeFaults(const Table& table, const absl::Status& status);

}  // namespace calibd::cli

#endif  // CALIBD_CLIENT_CLI_FILES_ROW_FAULTS_H_
