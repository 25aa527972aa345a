#ifndef CALIBD_CLIENT_CLI_FILES_TABLE_H_
#define CALIBD_CLIENT_CLI_FILES_TABLE_H_

#include <cstddef>
#include <functional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "client/cli/files/column_plan.h"
#include "client/cli/files/file_format.h"
#include "client/cli/files/input_options.h"
#include "client/cli/files/table_rows.h"

namespace calibd::cli {

// How an array is found in an NPZ file: by the name that the option states, or one of the names.
struct ArrayNames {
  const char* option;
  std::string stated;
  std::span<const std::string> names;
};

// The keys of predictions and labels in JSON Lines and NPZ, unless an option states another one.
extern const std::vector<std::string> kPredictionNames;
extern const std::vector<std::string> kLabelNames;

// What is known of a file before its rows are read.
struct TableHead {
  // Names of the columns; empty for an array, and for CSV without a header.
  std::span<const std::string> names;
  std::size_t column_count = 0;
  // The truths are in an array of their own in the same file.
  bool truth_array = false;
  // The columns of a key of JSON Lines that holds the predictions; empty without one.
  std::span<const std::size_t> predictions{};
};

// What a kind of file says about its columns.
struct TableSchema {
  const ColumnOptions& options;
  // Whether the first line of a CSV file holds names.
  std::function<absl::StatusOr<bool>(std::span<const std::string_view> first_row)> is_header;
  // Gives each column its role.
  std::function<absl::StatusOr<ColumnPlan>(const TableHead& head)> plan;
  // Converts the text of a truth; unset if it is a number. Errors: InvalidArgument saying what is
  // wrong.
  std::function<absl::StatusOr<double>(std::string_view text)> parse_truth{};
  // What a value is, and what the truths are called, for errors.
  std::string_view value = "a number";
  std::string_view truths{};
  // The array of the values, or of the truths without values.
  ArrayNames array{
      .option = "--predictions-key", .stated = options.predictions, .names = kPredictionNames};
  // Truths may be in an array of their own in the same NPZ file.
  bool truth_array = false;
};

// Reads the rows of a file of any format: CSV, JSON Lines, NPY or NPZ. Checks that each cell can be
// read, but not the values. Errors: InvalidArgument naming the file, line and column, what was
// found, what was expected and what to do; a usage fault if an option does not suit the format.
[[nodiscard]] absl::StatusOr<Table> ReadTable(InputFile& file, const TableSchema& schema);

// Reads the truths of the rows of `table` from a file of their own, one in each row. noun: names a
// truth in errors, such as "label". Errors: as ReadTable, and if their number differs.
[[nodiscard]] absl::Status ReadTruthFile(
    InputFile& file, const ColumnOptions& options, const char* noun,
    const std::function<absl::StatusOr<double>(std::string_view text)>& parse_truth, Table& table);

// Reads the files of ids, groups and features that the options name, for the rows of `table`.
// Errors: as ReadTruthFile.
[[nodiscard]] absl::Status ReadOtherFiles(const InputOptions& options, Table& table);

// Reads a file of numbers alone, as the values of a table. The first line of a CSV may hold names.
[[nodiscard]] absl::StatusOr<Table> ReadNumbers(const std::string& path,
                                                const ColumnOptions& options);

}  // namespace calibd::cli

#endif  // CALIBD_CLIENT_CLI_FILES_TABLE_H_
