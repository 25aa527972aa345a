#ifndef CALIBD_CLIENT_CLI_FILES_ROW_FEATURES_H_
#define CALIBD_CLIENT_CLI_FILES_ROW_FEATURES_H_

#include <cstddef>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "calibd/v1/model_service.pb.h"
#include "client/cli/files/column_plan.h"

namespace calibd::cli {

// The features of the rows of `send`: in columns of the predictions that have the names of the
// model's features, or in a file of their own.

// Makes the columns of the predictions include the features, unless there is a file. file: the
// option --features, or empty. Errors: a usage fault if the model has no features.
[[nodiscard]] absl::Status PlanFeatures(const v1::Model& model, const std::string& file,
                                        ColumnOptions& columns);

// Reads the file, if there is one, into `features`, which otherwise are those of the columns. rows:
// the number of predictions, in the file at `path`. Errors: InvalidArgument.
[[nodiscard]] absl::Status ReadFeatures(const v1::Model& model, const std::string& file,
                                        const ColumnOptions& columns, const std::string& path,
                                        std::size_t rows, std::vector<double>& features);

}  // namespace calibd::cli

#endif  // CALIBD_CLIENT_CLI_FILES_ROW_FEATURES_H_
