#ifndef CALIBD_CLIENT_CLI_FILES_LABEL_TABLE_H_
#define CALIBD_CLIENT_CLI_FILES_LABEL_TABLE_H_

#include <cstddef>
#include <cstdint>
#include <span>
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

// Files of several labels are CSV with a header or JSON Lines. For each label NAME, the column
// prob_NAME has its probability, and label_NAME its truth: 0 or 1, or false or true, or an empty
// cell where the truth is missing. Other columns are left out.

// Reads valid probabilities with their truths. columns: only the delimiter and drop_invalid are
// used. Errors: as ReadTable, also for invalid probabilities.
[[nodiscard]] absl::StatusOr<LabelTable> ReadLabelTable(const std::string& path,
                                                        const ColumnOptions& columns);

// Reads probabilities, or logits, in the order of the labels of a model. Without a column of
// truths, these come later. The id is the column of --id-column or the one with the name id, and
// the time that of --time-column or the one with the name time. Errors: as ReadTable.
[[nodiscard]] absl::StatusOr<Table> ReadLabels(const InputOptions& options,
                                               std::span<const std::string> labels);

// Reads the truths of predictions that were sent before, by the id of these. Errors: as ReadTable.
[[nodiscard]] absl::StatusOr<Table> ReadLabelTruths(const LabelFileOptions& options,
                                                    std::span<const std::string> labels);

// The truths as a stream takes them: 1, 0, -1 if missing, and 2 if one could not be read.
[[nodiscard]] std::vector<std::int32_t> TruthsToSend(const Table& table);

}  // namespace calibd::cli

#endif  // CALIBD_CLIENT_CLI_FILES_LABEL_TABLE_H_
