#include "client/cli/files/row_features.h"

#include <cstddef>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "calibd/convert/text.h"
#include "client/cli/commands/command.h"
#include "client/cli/files/text_row.h"

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

absl::Status CheckFeatures(const v1::Model& model, const std::string& file, const Table& table) {
  const auto width = static_cast<std::size_t>(model.feature_names_size());
  const std::size_t rows = table.row_count;
  if (table.features.size() == rows * width) return absl::OkStatus();
  const std::string names = absl::StrJoin(model.feature_names(), ", ");
  if (file.empty()) {
    return FileError(table.places.path,
                     absl::StrCat("has no names of columns, but the model has the features ", names,
                                  ": give them with --features FILE"));
  }
  const std::size_t columns = table.features.size() / rows;
  return FileError(file, absl::StrCat("has ", convert::CountText(rows, "row"), " of ",
                                      convert::CountText(columns, "column"), ", expected ",
                                      convert::CountText(rows, "row"), " of the features ", names));
}

}  // namespace calibd::cli
