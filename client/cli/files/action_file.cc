#include "client/cli/files/action_file.h"

#include <algorithm>
#include <cstddef>
#include <optional>
#include <string_view>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "calibd/convert/text.h"
#include "calibd/core/status_macros.h"
#include "client/cli/files/csv_reader.h"
#include "client/cli/files/file_format.h"
#include "client/cli/files/text_row.h"

namespace calibd::cli {
namespace {

// Returns the class of each column of losses, or nothing if no column has the name of a class.
// Errors: InvalidArgument unless each class has one column.
absl::StatusOr<std::vector<std::size_t>> ClassesOf(std::span<const std::string> names,
                                                   std::span<const std::string> class_names) {
  std::vector<std::size_t> classes;
  for (const std::string& name : names) {
    const auto found = std::ranges::find(class_names, name);
    if (found == class_names.end()) continue;
    classes.push_back(static_cast<std::size_t>(found - class_names.begin()));
  }
  if (classes.empty()) return classes;
  std::vector<std::size_t> sorted = classes;
  std::ranges::sort(sorted);
  const bool repeats = std::ranges::adjacent_find(sorted) != sorted.end();
  if (classes.size() < names.size() || classes.size() < class_names.size() || repeats) {
    return absl::InvalidArgumentError(
        absl::StrCat("the columns are ", absl::StrJoin(names, ", "),
                     ", expected each class once: ", absl::StrJoin(class_names, ", ")));
  }
  return classes;
}

}  // namespace

absl::StatusOr<std::vector<v1::Action>> ReadActions(const std::string& path,
                                                    std::span<const std::string> class_names) {
  CALIBD_ASSIGN_OR_RETURN(InputFile file, OpenInput(path));
  if (file.format != FileFormat::kCsv) {
    return FileError(file.name,
                     "is no CSV file: write the name and the losses of one action a line");
  }
  std::vector<v1::Action> actions;
  std::optional<std::size_t> column_count;
  std::vector<std::size_t> classes;
  const auto add = [&](const TextRow& row) -> absl::Status {
    double loss = 0;
    const bool first = !column_count.has_value();
    if (first) column_count = row.cells.size();
    if (row.cells.size() != *column_count) {
      return CellError(file.name, row.line, std::min(row.cells.size(), *column_count),
                       absl::StrCat("the line has ", convert::CountText(row.cells.size(), "column"),
                                    ", expected ", *column_count));
    }
    if (first && std::ranges::none_of(
                     row.cells, [&](std::string_view cell) { return ParseDouble(cell, loss); })) {
      const std::vector<std::string> names(row.cells.begin() + 1, row.cells.end());
      absl::StatusOr<std::vector<std::size_t>> found = ClassesOf(names, class_names);
      if (!found.ok()) return FileError(file.name, std::string(found.status().message()));
      classes = *std::move(found);
      return absl::OkStatus();
    }
    v1::Action action;
    action.set_name(std::string(row.cells[0]));
    action.mutable_losses()->Resize(static_cast<int>(row.cells.size()) - 1, 0);
    for (std::size_t k = 1; k < row.cells.size(); ++k) {
      if (!ParseDouble(row.cells[k], loss)) {
        return CellError(file.name, row.line, k + 1,
                         absl::StrCat(Quote(row.cells[k]), " is not a number"));
      }
      action.set_losses(static_cast<int>(classes.empty() ? k - 1 : classes[k - 1]), loss);
    }
    actions.push_back(std::move(action));
    return absl::OkStatus();
  };
  CALIBD_RETURN_IF_ERROR(ReadCsv(*file.stream, file.name, ',', add));
  if (actions.empty()) return FileError(file.name, "has no actions");
  return actions;
}

}  // namespace calibd::cli
