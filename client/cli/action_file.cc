#include "action_file.h"

#include <algorithm>
#include <cstddef>
#include <optional>
#include <string_view>

#include "absl/strings/str_cat.h"
#include "calibd/core/status_macros.h"
#include "column_plan.h"
#include "file_format.h"
#include "text_predictions.h"
#include "text_row.h"

namespace calibd::cli {

absl::StatusOr<std::vector<v1::Action>> ReadActions(const std::string& path) {
  CALIBD_ASSIGN_OR_RETURN(InputFile file, OpenInput(path));
  if (file.format != FileFormat::kCsv) {
    return FileError(file.name,
                     "is no CSV file: write the name and the losses of one action a line");
  }
  std::vector<v1::Action> actions;
  std::optional<std::size_t> column_count;
  const auto add = [&](const TextRow& row) -> absl::Status {
    double loss = 0;
    const bool first = !column_count.has_value();
    if (first) column_count = row.cells.size();
    if (row.cells.size() != *column_count) {
      return CellError(
          file.name, row.line, std::min(row.cells.size(), *column_count),
          absl::StrCat("the line has ", row.cells.size(), " columns, expected ", *column_count));
    }
    if (first && std::ranges::none_of(
                     row.cells, [&](std::string_view cell) { return ParseDouble(cell, loss); })) {
      return absl::OkStatus();
    }
    v1::Action action;
    action.set_name(std::string(row.cells[0]));
    for (std::size_t k = 1; k < row.cells.size(); ++k) {
      if (!ParseDouble(row.cells[k], loss)) {
        return CellError(file.name, row.line, k + 1,
                         absl::StrCat(Quote(row.cells[k]), " is not a number"));
      }
      action.add_losses(loss);
    }
    actions.push_back(std::move(action));
    return absl::OkStatus();
  };
  CALIBD_RETURN_IF_ERROR(ReadRows(file.stream, file.format, ColumnOptions(), file.name, add));
  if (actions.empty()) return FileError(file.name, "has no actions");
  return actions;
}

}  // namespace calibd::cli
