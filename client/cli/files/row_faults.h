#ifndef CALIBD_CLIENT_CLI_FILES_ROW_FAULTS_H_
#define CALIBD_CLIENT_CLI_FILES_ROW_FAULTS_H_

#include "absl/status/status.h"
#include "client/cli/files/table.h"

namespace calibd::cli {

// Replaces the rows in an error message by their places in the files of the table.
[[nodiscard]] absl::Status DescribeFaults(const Table& table, const absl::Status& faults);

}  // namespace calibd::cli

#endif  // CALIBD_CLIENT_CLI_FILES_ROW_FAULTS_H_
