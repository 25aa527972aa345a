#ifndef CALIBD_CLIENT_CLI_FILES_LABEL_TABLE_H_
#define CALIBD_CLIENT_CLI_FILES_LABEL_TABLE_H_

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "calibd/core/multilabel.h"
#include "client/cli/files/column_plan.h"

namespace calibd::cli {

// Predictions of several labels with their truths.
struct LabelTable {
  // In the order of the columns of probabilities.
  std::vector<std::string> names;
  // n x K, row-major.
  std::vector<double> probabilities;
  std::vector<std::int8_t> truths;

  [[nodiscard]] MultilabelBatch view() const { return {probabilities, truths, names.size()}; }
};

// Reads CSV with a header or JSON Lines. For each label NAME, the column prob_NAME has its
// probability, and label_NAME its truth: 0 or 1, or false or true, or an empty cell where the truth
// is missing. Other columns are left out. columns: only the delimiter is used. Errors:
// InvalidArgument naming the file, line and column, what was found and what was expected; for a
// file that cannot be read, the status of the system's error.
[[nodiscard]] absl::StatusOr<LabelTable> ReadLabelTable(const std::string& path,
                                                        const ColumnOptions& columns);

}  // namespace calibd::cli

#endif  // CALIBD_CLIENT_CLI_FILES_LABEL_TABLE_H_
