#ifndef CALIBD_CLIENT_CLI_FILES_COLUMN_PLAN_H_
#define CALIBD_CLIENT_CLI_FILES_COLUMN_PLAN_H_

#include <cstddef>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "absl/status/statusor.h"

namespace calibd::cli {

// The options that say what a column of CSV, a key of JSON Lines, or an array of NPZ holds. A
// column is stated by its name, or by its number from 1 if the file has no header.
struct ColumnOptions {
  std::string label;
  std::string id;
  std::string time;
  std::string group;
  // The predictions, of JSON Lines and NPZ only.
  std::string predictions;
  std::vector<std::string> dropped;
  // The features of the cases, and what an error calls their option.
  std::vector<std::string> features;
  const char* feature_option = "--feature-column";
  std::string delimiter = ",";
  // Whether the first line of a CSV file holds names. Unset: decided by the line itself.
  std::optional<bool> header;
};

// The columns of a file, counted from 0.
struct ColumnPlan {
  std::size_t column_count = 0;
  // The column of each class, in the order of the classes.
  std::vector<std::size_t> classes;
  std::optional<std::size_t> label, id, time, group;
  std::vector<std::size_t> features;
  // In the order of the classes; empty if unknown.
  std::vector<std::string> class_names;
  // What the user should know about the match of columns and classes; empty if nothing.
  std::string note;
};

// What the columns must match.
struct ColumnExpectation {
  // The class names; empty if unknown.
  std::span<const std::string> class_names;
  std::optional<int> label_base;
  // The file has one column of probabilities, of the positive class.
  bool positive_class = false;
  // The last column holds the labels.
  bool labels_last = false;
};

// Returns the delimiter: one character, or "tab". Errors: a usage fault.
[[nodiscard]] absl::StatusOr<char> ParseDelimiter(const std::string& text);

// Whether the cells of the first line of a CSV file are names: no cell is a number or missing, one
// is the name of a stated column, or the first is empty and the others are names, as pandas writes
// them with an index.
[[nodiscard]] bool HoldsNames(const ColumnOptions& options,
                              std::span<const std::string_view> first_row);

// Whether the first line of a CSV file of predictions is a header: as stated, or if it HoldsNames.
// note: set if the line is 0 or 0,1, which is read as a prediction. Errors: InvalidArgument if the
// line is 0,1,2,...
[[nodiscard]] absl::StatusOr<bool> IsHeader(const ColumnOptions& options, const std::string& source,
                                            std::span<const std::string_view> first_row,
                                            std::string& note);

// Returns the index of the column that an option states. names: column names of the
// header; empty without one.
// Errors: InvalidArgument naming the columns that exist.
[[nodiscard]] absl::StatusOr<std::size_t> FindColumn(const std::string& source, const char* option,
                                                     const std::string& stated,
                                                     std::span<const std::string> names,
                                                     std::size_t column_count);

// Assigns the columns. With names, class columns are matched to the class names by name. An unnamed
// first column is the index that pandas writes, and is left out. names: of the header; empty
// without one. Errors: InvalidArgument naming the columns, what was expected and the options that
// help.
[[nodiscard]] absl::StatusOr<ColumnPlan> PlanColumns(const ColumnOptions& options,
                                                     const ColumnExpectation& expectation,
                                                     const std::string& source,
                                                     std::span<const std::string> names,
                                                     std::size_t column_count);

// Assigns the id and the label column of a file of labels: the stated ones, otherwise those with
// the names id and label, or the first and the second one of two. Errors: like PlanColumns.
[[nodiscard]] absl::StatusOr<ColumnPlan> PlanLabelColumns(const ColumnOptions& options,
                                                          const std::string& source,
                                                          std::span<const std::string> names,
                                                          std::size_t column_count);

}  // namespace calibd::cli

#endif  // CALIBD_CLIENT_CLI_FILES_COLUMN_PLAN_H_
