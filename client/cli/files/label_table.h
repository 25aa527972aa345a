#ifndef CALIBD_CLIENT_CLI_FILES_LABEL_TABLE_H_
#define CALIBD_CLIENT_CLI_FILES_LABEL_TABLE_H_

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "calibd/core/multilabel.h"
#include "client/cli/files/table.h"

namespace calibd::cli {

// Predictions of several labels: a value for each label.
struct LabelTable : Table {
  // In the order of the columns of probabilities.
  std::vector<std::string> names;
  // n x K, row-major.
  std::vector<std::int8_t> labels;

  [[nodiscard]] MultilabelBatch view() const { return {values, labels, names.size()}; }
};

// Reads CSV with a header or JSON Lines. For each label NAME, the column prob_NAME has its
// probability, and label_NAME its truth: 0 or 1, or false or true, or an empty cell where the truth
// is missing. Other columns are left out. columns: only the delimiter and drop_invalid are used.
// Errors: as ReadTable, also for invalid probabilities.
[[nodiscard]] absl::StatusOr<LabelTable> ReadLabelTable(const std::string& path,
                                                        const ColumnOptions& columns);

}  // namespace calibd::cli

#endif  // CALIBD_CLIENT_CLI_FILES_LABEL_TABLE_H_
