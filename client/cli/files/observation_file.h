#ifndef CALIBD_CLIENT_CLI_FILES_OBSERVATION_FILE_H_
#define CALIBD_CLIENT_CLI_FILES_OBSERVATION_FILE_H_

#include "absl/status/statusor.h"
#include "client/cli/files/file_changes.h"
#include "client/cli/files/prediction_file.h"

namespace calibd::cli {

// Reads predictions with their labels, applies the softmax to logits, and drops invalid rows if
// wanted; the rows of `input` are then valid.
// Unless labels are needed, all of them are 0. row_sum_tolerance: 0 for the default. Errors: as
// ReadInput; a usage fault if needed labels are missing; InvalidArgument that names the invalid
// rows.
[[nodiscard]] absl::StatusOr<FileChanges> ReadObservations(const InputOptions& options,
                                                           double row_sum_tolerance, Input& input);

}  // namespace calibd::cli

#endif  // CALIBD_CLIENT_CLI_FILES_OBSERVATION_FILE_H_
