#ifndef CALIBD_CLIENT_CLI_FILES_ACTION_FILE_H_
#define CALIBD_CLIENT_CLI_FILES_ACTION_FILE_H_

#include <span>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "calibd/v1/calibration_service.pb.h"

namespace calibd::cli {

// Reads the actions of a decision, one in each line of a CSV file: its name, and its loss for each
// class. The first line may hold names: if these are names of classes, the columns are matched to
// them, else they are in the order of the classes. class_names: empty if unknown. Errors: as
// OpenInput; InvalidArgument with the line and the column for a loss that is not a number, or if
// only some columns are classes. The number of losses is not checked.
[[nodiscard]] absl::StatusOr<std::vector<v1::Action>> ReadActions(
    const std::string& path, std::span<const std::string> class_names);

}  // namespace calibd::cli

#endif  // CALIBD_CLIENT_CLI_FILES_ACTION_FILE_H_
