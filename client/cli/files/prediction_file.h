#ifndef CALIBD_CLIENT_CLI_FILES_PREDICTION_FILE_H_
#define CALIBD_CLIENT_CLI_FILES_PREDICTION_FILE_H_

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "calibd/core/violation.h"
#include "client/cli/files/table.h"

namespace calibd::cli {

// Predictions of classes: the values are probabilities or logits, class_count in each row.
struct Input : Table {
  // 0-based; empty if they come later. With drop_invalid, -1: missing or invalid.
  std::vector<std::int32_t> labels;
  std::size_t class_count = 0;
  // In the order of the classes; empty if unknown.
  std::vector<std::string> class_names;
};

// Reads the files. Checks shapes and labels, but not the probabilities. Errors: as ReadTable; for a
// file that cannot be read, the status of the system's error, such as NotFound.
[[nodiscard]] absl::StatusOr<Input> ReadInput(const InputOptions& options);
// Reads the predictions from an open file.
[[nodiscard]] absl::StatusOr<Input> ReadInput(const InputOptions& options, InputFile& file);

// Reads predictions with their labels, tells the notes, applies the softmax to logits, and drops
// invalid rows if wanted; all rows are then valid. Unless labels are needed, all of them are 0.
// row_sum_tolerance: 0 for the default. Errors: as ReadInput; a usage fault if needed labels are
// missing; InvalidArgument that names the invalid rows.
[[nodiscard]] absl::StatusOr<Input> ReadObservations(const InputOptions& options,
                                                     double row_sum_tolerance);

// The errors of row_faults.h, with the options that help.
[[nodiscard]] absl::Status DescribeFaults(const Input& input,
                                          std::span<const Violation> violations);
[[nodiscard]] absl::Status DescribeFaults(const Input& input, const absl::Status& status);

// Labels as classes: -1 for a truth that is missing or could not be read.
[[nodiscard]] std::vector<std::int32_t> ClassesOf(std::span<const double> truths);

}  // namespace calibd::cli

#endif  // CALIBD_CLIENT_CLI_FILES_PREDICTION_FILE_H_
