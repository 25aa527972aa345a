#ifndef CALIBD_CLIENT_CLI_FILES_TEXT_PREDICTIONS_H_
#define CALIBD_CLIENT_CLI_FILES_TEXT_PREDICTIONS_H_

#include <cstddef>
#include <cstdint>
#include <istream>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "client/cli/files/file_format.h"
#include "client/cli/files/label_parser.h"
#include "client/cli/files/prediction_file.h"
#include "client/cli/files/text_row.h"

namespace calibd::cli {

// The keys of predictions and labels in JSON Lines and NPZ, unless an option states another one.
extern const std::vector<std::string> kPredictionNames;
extern const std::vector<std::string> kLabelNames;

// Converts a number to the nearest double, independent of the locale. One that is too small for a
// double becomes 0. Returns false for a text that is not a number, or is one beyond a double.
[[nodiscard]] bool ParseDouble(std::string_view text, double& value);

// Reads the rows of CSV or JSON Lines. A first row of JSON Lines holds the keys.
[[nodiscard]] absl::Status ReadRows(std::istream& input, FileFormat format,
                                    const ColumnOptions& columns, const std::string& source,
                                    OnRow on_row);

// Reads predictions, with the labels, ids, times and groups that their columns hold, into `input`.
// With a positive class, input.values has one value for each row. positive_class: 0 or 1, if
// stated.
[[nodiscard]] absl::Status ReadTextPredictions(std::istream& stream, FileFormat format,
                                               const InputOptions& options,
                                               std::optional<std::int32_t> positive_class,
                                               Input& input);

// Reads the labels of row_count predictions, one in each row.
[[nodiscard]] absl::Status ReadTextLabels(std::istream& stream, FileFormat format,
                                          const InputOptions& options, const LabelParser& parser,
                                          std::size_t row_count, Input& input);

// Reads one text of each row of CSV with one column. noun: names a text in errors, such as "id".
[[nodiscard]] absl::StatusOr<std::vector<std::string>> ReadTexts(std::istream& stream,
                                                                 const char* noun,
                                                                 const ColumnOptions& columns,
                                                                 RowPlaces& places);

// Reads ids and labels.
[[nodiscard]] absl::Status ReadTextLabelsById(std::istream& stream, FileFormat format,
                                              const LabelFileOptions& options,
                                              const LabelParser& parser, LabelsById& file);

}  // namespace calibd::cli

#endif  // CALIBD_CLIENT_CLI_FILES_TEXT_PREDICTIONS_H_
