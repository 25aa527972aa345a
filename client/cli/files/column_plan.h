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
  // The predictions: a column with a name in CSV, a key of JSON Lines, or an array of NPZ.
  std::string predictions;
  std::vector<std::string> dropped;
  // A column of `dropped` that the file does not have is no error.
  bool may_lack_dropped = false;
  // The features of the cases, and what an error calls their option.
  std::vector<std::string> features;
  const char* feature_option = "--feature-column";
  // Empty: a comma, or if the first line has none, a semicolon, a tab or a | that it has.
  std::string delimiter;
  // Rows that cannot be read, or are invalid, are left out.
  bool drop_invalid = false;
  // Whether the first line of a CSV file holds names. Unset: decided by the line itself.
  std::optional<bool> header;
};

// What the columns of a file hold, counted from 0.
struct ColumnPlan {
  std::size_t column_count = 0;
  // The column of each value of a prediction, such as the classes in their order.
  std::vector<std::size_t> values;
  // The column of each label or outcome.
  std::vector<std::size_t> truths;
  std::optional<std::size_t> id, time, group;
  std::vector<std::size_t> features;
  // Names of all columns; empty for an array, and for CSV without a header.
  std::vector<std::string> names;
  // Names of the values, such as the classes; empty if unknown.
  std::vector<std::string> value_names;
  // What the user should know about the match of columns and classes; empty if nothing.
  std::string note;
  // The name of the class whose probability the only column of values is, if its name says so, as
  // prob_yes does; else empty.
  std::string positive_class;
};

// The name of the column that has each role if no option names one. An empty name means that the
// file has no such column.
struct UsualNames {
  std::string_view truth;
  std::string_view id;
  std::string_view time;
  std::string_view group;
};

// What the columns of classes must match.
struct ColumnExpectation {
  UsualNames usual;
  // The labels are in a file of their own.
  bool labels_elsewhere = false;
  // The class names; empty if unknown.
  std::span<const std::string> class_names;
  std::optional<int> label_base;
  // The class whose probability is in the only column of probabilities: its name, or its number if
  // it has no name; empty if each class has a column.
  std::string_view positive_class{};
  // The last column holds the labels.
  bool labels_last = false;
  // Whether a column that is named after the probability of a class may say which class is the
  // positive one, and that the only other column holds the labels.
  bool finds_positive_class = false;
  // The columns that hold the predictions; empty if any column may.
  std::span<const std::size_t> predictions{};
};

// Returns the delimiter: one character, or "tab". Errors: a usage fault.
[[nodiscard]] absl::StatusOr<char> ParseDelimiter(const std::string& text);

// What to do about a header with only one column, after "; ". Empty with several.
[[nodiscard]] std::string DelimiterHint(std::span<const std::string> names);

// Whether the first line of a CSV file is a header: as stated, or if its cells are names. These are
// names if no cell is a number or missing, if one is the name of a stated column or a usual name,
// or if the first is empty and the others are names, as pandas writes them with an index.
[[nodiscard]] bool HoldsNames(const ColumnOptions& options, const UsualNames& usual,
                              std::span<const std::string_view> first_row);

// Whether the first line of a CSV file of classes is a header: if it HoldsNames.
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

// Gives the stated columns and those with usual names their roles. If `predictions` is not empty or
// an option names the column of the predictions, these columns hold values and all others are left
// out; otherwise all others hold values. An unnamed first column is the index that pandas writes,
// and is left out. truths_elsewhere: the truths are in a file of their own, so that no column holds
// them. names: of the header; empty without one. Errors: those of FindColumn.
[[nodiscard]] absl::StatusOr<ColumnPlan> AssignColumns(
    const ColumnOptions& options, const UsualNames& usual, bool truths_elsewhere,
    const std::string& source, std::span<const std::string> names, std::size_t column_count,
    std::span<const std::size_t> predictions = {});

// Does what AssignColumns does, for predictions of classes. With names, the columns of values are
// matched to the class names by name. Of several columns, the one that is named after the
// probability of a stated positive class holds it. If no class is stated, and one column alone is
// named after the probability of a class, as prob_yes is, beside the labels or one other column,
// then this class is the positive one, and the other column holds the labels. Errors:
// InvalidArgument naming the columns, what was expected and the options that help.
[[nodiscard]] absl::StatusOr<ColumnPlan> PlanClasses(const ColumnOptions& options,
                                                     const ColumnExpectation& expectation,
                                                     const std::string& source,
                                                     std::span<const std::string> names,
                                                     std::size_t column_count);

}  // namespace calibd::cli

#endif  // CALIBD_CLIENT_CLI_FILES_COLUMN_PLAN_H_
