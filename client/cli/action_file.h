#ifndef CALIBD_CLI_ACTION_FILE_H_
#define CALIBD_CLI_ACTION_FILE_H_

#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "calibd/v1/calibration_service.pb.h"

namespace calibd::cli {

// Reads the actions of a decision, one in each line of a CSV file: its name, and its loss for each
// class. The first line may hold names. Errors: as OpenInput; InvalidArgument with the line and the
// column for a loss that is not a number. The number of losses is not checked.
[[nodiscard]] absl::StatusOr<std::vector<v1::Action>> ReadActions(const std::string& path);

}  // namespace calibd::cli

#endif  // CALIBD_CLI_ACTION_FILE_H_
