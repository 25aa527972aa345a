#include "client/cli/files/row_features.h"

#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "calibd/core/status_macros.h"
#include "client/cli/commands/command.h"
#include "client/cli/files/forecast_file.h"

namespace calibd::cli {

absl::Status PlanFeatures(const v1::Model& model, const std::string& file, ColumnOptions& columns) {
  if (model.feature_names().empty() && !file.empty()) {
    return UsageFault(absl::StrCat(ShortName(model.name()),
                                   " has no features: create it with --feature-names, or leave out "
                                   "--features"));
  }
  if (!file.empty()) return absl::OkStatus();
  columns.features.assign(model.feature_names().begin(), model.feature_names().end());
  columns.feature_option = "--features is not given, and the model's feature";
  return absl::OkStatus();
}

absl::Status ReadFeatures(const v1::Model& model, const std::string& file,
                          const ColumnOptions& columns, const std::string& path, std::size_t rows,
                          std::vector<double>& features) {
  const auto width = static_cast<std::size_t>(model.feature_names_size());
  if (file.empty()) {
    if (features.size() == rows * width) return absl::OkStatus();
    return FileError(path, absl::StrCat("has no names of columns, but the model has the features ",
                                        absl::StrJoin(model.feature_names(), ", "),
                                        ": give them with --features FILE"));
  }
  CALIBD_ASSIGN_OR_RETURN(NumberTable table, ReadNumbers(file, columns));
  if (table.column_count != width || table.values.size() != rows * width) {
    return FileError(
        file, absl::StrCat("has ", table.values.size() / table.column_count, " rows of ",
                           table.column_count, table.column_count == 1 ? " column" : " columns",
                           ", expected ", rows, " rows of the features ",
                           absl::StrJoin(model.feature_names(), ", ")));
  }
  features = std::move(table.values);
  return absl::OkStatus();
}

}  // namespace calibd::cli
