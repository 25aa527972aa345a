#ifndef CALIBD_CLIENT_CLI_FILES_FILE_CHANGES_H_
#define CALIBD_CLIENT_CLI_FILES_FILE_CHANGES_H_

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>

#include "client/cli/output.pb.h"

namespace calibd::cli {

// What --renormalise did.
struct Renormalisation {
  // Rows whose sum differed from 1 by more than the rounding of the sum.
  std::int64_t rows = 0;
  // The largest |sum - 1|.
  double largest_correction = 0;
};

// What was changed in the rows of files.
struct FileChanges {
  // Invalid rows that were left out; unset if the values were not checked.
  std::optional<std::size_t> dropped_rows;
  // Unset without --renormalise.
  std::optional<Renormalisation> renormalisation;
  // Values of the file outside [0, 1] by a rounding, which are 0 or 1 now.
  std::size_t rounded_probabilities = 0;
  // Rows that the order of their times moved; unset without times.
  std::optional<std::size_t> moved_rows;
};

[[nodiscard]] FileRows ToProto(const FileChanges& changes);
// A paragraph for each change.
[[nodiscard]] std::string Describe(const FileChanges& changes);

}  // namespace calibd::cli

#endif  // CALIBD_CLIENT_CLI_FILES_FILE_CHANGES_H_
