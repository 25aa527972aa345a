#ifndef CALIBD_CLIENT_CLI_FILES_ROW_FEATURES_H_
#define CALIBD_CLIENT_CLI_FILES_ROW_FEATURES_H_

#include <string>

#include "absl/status/status.h"
#include "calibd/v1/model_service.pb.h"
#include "client/cli/files/table.h"

namespace calibd::cli {

// The features of the rows of `send`: in columns of the predictions that have the names of the
// model's features, or in a file of their own.

// Makes the columns of the predictions include the features, unless there is a file. file: the
// option --features, or empty. Errors: a usage fault if the model has no features.
[[nodiscard]] absl::Status PlanFeatures(const v1::Model& model, const std::string& file,
                                        ColumnOptions& columns);

// Checks that each row has the features of the model. file: the option --features, or empty.
// Errors: InvalidArgument.
[[nodiscard]] absl::Status CheckFeatures(const v1::Model& model, const std::string& file,
                                         const Table& table);

}  // namespace calibd::cli

#endif  // CALIBD_CLIENT_CLI_FILES_ROW_FEATURES_H_
