#ifndef CALIBD_CLIENT_CLI_FILES_FILE_CHANGES_H_
#define CALIBD_CLIENT_CLI_FILES_FILE_CHANGES_H_

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>

#include "client/cli/files/column_plan.h"
#include "client/cli/output.pb.h"

namespace calibd::cli {

// What --renormalise did.
struct Renormalisation {
  // Rows whose sum differed from 1 by more than the rounding of the sum.
  std::int64_t rows = 0;
  // The largest |sum - 1|.
  double largest_correction = 0;
};

[[nodiscard]] FileRows ToProto(const Renormalisation& renormalisation);
// A sentence with a line end.
[[nodiscard]] std::string Describe(const Renormalisation& renormalisation);

// What was changed in the files; their options say what was wanted.
struct FileChanges {
  std::size_t dropped_rows = 0;
  std::optional<Renormalisation> renormalisation;
};

// The rows that --drop-invalid left out; unset without this option.
[[nodiscard]] std::optional<FileChanges> DroppedRows(const ColumnOptions& options,
                                                     std::size_t dropped_rows);

[[nodiscard]] FileRows ToProto(const FileChanges& changes);
// A paragraph for each change.
[[nodiscard]] std::string Describe(const FileChanges& changes);

}  // namespace calibd::cli

#endif  // CALIBD_CLIENT_CLI_FILES_FILE_CHANGES_H_
