#ifndef CALIBD_CLIENT_CLI_FILES_TABLE_ROWS_H_
#define CALIBD_CLIENT_CLI_FILES_TABLE_ROWS_H_

#include <cstddef>
#include <functional>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "client/cli/files/column_plan.h"
#include "client/cli/files/file_changes.h"
#include "client/cli/files/file_format.h"
#include "google/protobuf/timestamp.pb.h"

namespace calibd::cli {

// Where the rows of a file are.
struct RowPlaces {
  std::string path;
  // The line of each row; empty for the rows of an array.
  std::vector<std::size_t> lines;
  // The place of each row in the file, if the rows have another order; otherwise empty.
  std::vector<std::size_t> rows;
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

// Prints what the user should know about the columns, and warns if all of 20 or more rows hold only
// 0 and 1 as probabilities, as predicted classes are. probabilities: false for other values. On
// standard error.
void TellNotes(const Table& table, bool probabilities);

// Removes the rows that are not valid or have a feature that is not finite, and counts them.
void DropInvalidRows(const std::function<bool(std::size_t row)>& is_valid, Table& table);

// Checks that there are so many truths or texts as rows. noun: names one of them.
[[nodiscard]] absl::Status CheckCount(const RowPlaces& places, const char* noun, std::size_t count,
                                      const Table& table);

}  // namespace calibd::cli

#endif  // CALIBD_CLIENT_CLI_FILES_TABLE_ROWS_H_
