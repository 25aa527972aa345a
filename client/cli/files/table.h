#ifndef CALIBD_CLIENT_CLI_FILES_TABLE_H_
#define CALIBD_CLIENT_CLI_FILES_TABLE_H_

#include <cstddef>
#include <functional>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "client/cli/files/column_plan.h"
#include "client/cli/files/file_changes.h"
#include "client/cli/files/file_format.h"
#include "client/cli/files/input_options.h"
#include "google/protobuf/timestamp.pb.h"

namespace calibd::cli {

// Where the rows of a file are.
struct RowPlaces {
  std::string path;
  // The line of each row; empty for the rows of an array.
  std::vector<std::size_t> lines;
  // Whether the first line may be a header.
  bool csv = false;

  // "p.csv line 3", or "p.npy row 2 (counted from 0)".
  [[nodiscard]] std::string Of(std::size_t row) const;
};

// The rows of one or more files, as numbers and texts by role.
struct Table {
  std::size_t row_count = 0;
  // row_count x width, row-major: the predictions. With drop_invalid, a row that could not be read
  // has a NaN.
  std::vector<double> values;
  std::size_t width = 0;
  // row_count x truth_width, row-major, or empty: the labels or outcomes. NaN: missing. Infinity:
  // could not be read, with drop_invalid.
  std::vector<double> truths;
  std::size_t truth_width = 0;
  // row_count x the number of features, row-major, or empty.
  std::vector<double> features;
  // One for each row, or empty. An empty group means that the row has none.
  std::vector<std::string> ids;
  std::vector<std::string> groups;
  std::vector<google::protobuf::Timestamp> times;

  FileFormat format = FileFormat::kCsv;
  // The columns of the file of the values.
  ColumnPlan columns;
  RowPlaces places;
  // Places of roles that are in a file of their own; otherwise their paths are empty.
  RowPlaces truth_places;
  RowPlaces id_places;
  RowPlaces group_places;
  RowPlaces baseline_places;
  FileChanges changes;

  // "p.csv line 3, column 2 ("cat")", or "p.jsonl line 3, key "cat"".
  [[nodiscard]] std::string PlaceOf(std::size_t row, std::size_t column) const;
};

// Removes the rows that are not valid or have a feature that is not finite, and counts them.
void DropInvalidRows(const std::function<bool(std::size_t row)>& is_valid, Table& table);

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

// Checks that there are so many truths or texts as rows. noun: names one of them.
[[nodiscard]] absl::Status CheckCount(const RowPlaces& places, const char* noun, std::size_t count,
                                      const Table& table);

}  // namespace calibd::cli

#endif  // CALIBD_CLIENT_CLI_FILES_TABLE_H_
