#ifndef CALIBD_CLIENT_CLI_FILES_LABELS_BY_ID_H_
#define CALIBD_CLIENT_CLI_FILES_LABELS_BY_ID_H_

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "client/cli/files/table.h"

namespace calibd::cli {

// The truths of predictions that were sent before, with the ids of these: CSV or JSON Lines. The
// columns are those of --id-column and --label-column, or those with the usual names, or the first
// and the second one of two. An id has 1 to 128 bytes. Errors: as ReadTable.

// Reads labels of classes, in columns named id and label. With drop_invalid, a label that is
// missing or invalid is -1. class_names: empty if the model has none.
struct LabelsById : Table {
  // 0-based.
  std::vector<std::int32_t> labels;
};
[[nodiscard]] absl::StatusOr<LabelsById> ReadLabelFile(const LabelFileOptions& options,
                                                       std::span<const std::string> class_names,
                                                       std::size_t class_count);
// Reads the file that `options` names, and which is open.
[[nodiscard]] absl::StatusOr<LabelsById> ReadLabelFile(const LabelFileOptions& options,
                                                       std::span<const std::string> class_names,
                                                       std::size_t class_count, InputFile& file);

// Reads the outcomes of forecasts, in columns named id and outcome.
[[nodiscard]] absl::StatusOr<Table> ReadOutcomes(const LabelFileOptions& options);

}  // namespace calibd::cli

#endif  // CALIBD_CLIENT_CLI_FILES_LABELS_BY_ID_H_
