#include "client/cli/files/file_changes.h"

#include "absl/strings/str_cat.h"

namespace calibd::cli {

FileRows ToProto(const Renormalisation& renormalisation) {
  FileRows rows;
  rows.set_renormalised_rows(renormalisation.rows);
  rows.set_largest_row_sum_correction(renormalisation.largest_correction);
  return rows;
}

std::string Describe(const Renormalisation& renormalisation) {
  return absl::StrCat(renormalisation.rows,
                      " rows were divided by their sums, which differed from ", "1 by at most ",
                      renormalisation.largest_correction, "\n");
}

std::optional<FileChanges> DroppedRows(const ColumnOptions& options, std::size_t dropped_rows) {
  if (!options.drop_invalid) return std::nullopt;
  return FileChanges{.dropped_rows = dropped_rows, .renormalisation = {}};
}

FileRows ToProto(const FileChanges& changes) {
  FileRows rows;
  if (changes.renormalisation.has_value()) rows = ToProto(*changes.renormalisation);
  rows.set_dropped_rows(static_cast<std::int64_t>(changes.dropped_rows));
  return rows;
}

std::string Describe(const FileChanges& changes) {
  std::string text;
  if (changes.dropped_rows > 0) {
    absl::StrAppend(&text, "\n", changes.dropped_rows, " invalid rows were left out\n");
  }
  if (changes.renormalisation.has_value()) {
    absl::StrAppend(&text, "\n", Describe(*changes.renormalisation));
  }
  return text;
}

}  // namespace calibd::cli
