#ifndef CALIBD_CLIENT_CLI_FILES_PREDICTION_FILE_H_
#define CALIBD_CLIENT_CLI_FILES_PREDICTION_FILE_H_

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "CLI/App.hpp"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "client/cli/files/column_plan.h"
#include "client/cli/output.pb.h"
#include "google/protobuf/timestamp.pb.h"

namespace calibd::cli {

// The arguments and options that name the input files and say what they hold.
struct InputOptions {
  // CSV, JSON Lines, NPY or NPZ; "-": standard input.
  std::string predictions;
  // Empty: the labels are in `predictions`, or come later.
  std::string labels;
  // Number of the first class in the labels. Without it, labels are class names.
  std::optional<int> label_base;
  bool labels_last_column = false;
  // File with the ids of the predictions, whose labels may then come later.
  std::string ids;
  // File with the values of the model's group tag.
  std::string groups;
  ColumnOptions columns;
  // Names in the order of the classes; empty if unknown.
  std::vector<std::string> class_names;
  // The name or the number of the class whose probability is the only column. Empty: there is one
  // column for each class.
  std::string positive_class;
  bool logits = false;
  bool renormalise = false;
  bool drop_invalid = false;
  // Not an option: false if the command has a use for predictions without labels and ids.
  bool labels_needed = true;
};

// Adds the options of `columns` that files of classes and of forecasts of a number have: those
// whose names are kTableOptions. columns: must outlive the command.
void AddTableOptions(CLI::App& command, ColumnOptions& columns);
inline constexpr const char* kTableOptions[] = {"--header",    "--delimiter",    "--label-column",
                                                "--id-column", "--group-column", "--drop-column"};
// Adds these and the other options of `input` except ids and groups to a command. input: must
// outlive the command.
void AddInputOptions(CLI::App& command, InputOptions& input);

// Returns what is wrong with the combination of options; unset if it is valid.
[[nodiscard]] std::optional<std::string> FindUsageFault(const InputOptions& input);

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

// What --renormalise did.
struct Renormalisation {
  // Rows whose sum differed from 1 by more than the rounding of the sum.
  std::int64_t rows = 0;
  // The largest |sum - 1|.
  double largest_correction = 0;
};

[[nodiscard]] FileRows ToProto(const Renormalisation& renormalisation);
// A sentence with a line end.
[[nodiscard]] std::string Describe(const Renormalisation& renormalisation);

// Predictions with their own memory.
struct Input {
  // n x class_count, row-major: probabilities or logits. With drop_invalid, a row that could not be
  // read contains NaN.
  std::vector<double> values;
  // n labels, 0-based; empty if they come later. With drop_invalid, -1: missing or invalid.
  std::vector<std::int32_t> labels;
  // n ids, or empty.
  std::vector<std::string> ids;
  // n group values, or empty; an empty value means that the row has no group.
  std::vector<std::string> groups;
  // n values for each of the features of ColumnOptions, row-major.
  std::vector<double> features;
  // n times of the predictions, or empty.
  std::vector<google::protobuf::Timestamp> times;
  std::size_t class_count = 0;
  // In the order of the classes; empty if unknown.
  std::vector<std::string> class_names;
  RowPlaces prediction_places;
  // Places of the baseline's predictions, if they are in a file of their own.
  RowPlaces baseline_places;
  RowPlaces label_places;
  RowPlaces id_places;
  RowPlaces group_places;
  // The column of each class in the file, from 0; empty: in the order of the classes.
  std::vector<std::size_t> class_columns;
  Renormalisation renormalisation;
  // What the user should know about the match of columns and classes; empty if nothing.
  std::string note;
};

// Reads the files. Checks shapes and labels, but not the probabilities. Errors: InvalidArgument
// naming the file, line and column, what was found, what was expected and what to do; a usage fault
// if an option is missing; for a file that cannot be read, the status of the system's error, such
// as NotFound.
[[nodiscard]] absl::StatusOr<Input> ReadInput(const InputOptions& options);

// Prints the note on standard error, if there is one.
void TellNote(const Input& input);

// Replaces the rows in an error message by their places in the files ("rows[1].probabilities[0] is
// 2" becomes "p.csv line 2, column 1 is 2"), and adds the options that help.
[[nodiscard]] absl::Status DescribeFaults(const Input& input, const absl::Status& faults);

// The options that name the file of labels by id.
struct LabelFileOptions {
  std::string path;
  std::optional<int> label_base;
  ColumnOptions columns;
  bool drop_invalid = false;
};

// Adds the options of `file` to a command. file: must outlive the command.
void AddLabelFileOptions(CLI::App& command, LabelFileOptions& file);

// Ids of predictions and their labels.
struct LabelsById {
  std::vector<std::string> ids;
  // 0-based. With drop_invalid, -1: missing or invalid.
  std::vector<std::int32_t> labels;
  RowPlaces places;
};
inline constexpr std::size_t kMaxIdBytes = 128;

// Reads CSV or JSON Lines with an id of 1 to kMaxIdBytes bytes and a label in each row.
// class_names: empty if the model has none. Errors: like ReadInput.
[[nodiscard]] absl::StatusOr<LabelsById> ReadLabelFile(const LabelFileOptions& options,
                                                       std::span<const std::string> class_names,
                                                       std::size_t class_count);

// Does what DescribeFaults above does, for labels, and for forecasts and their outcomes.
[[nodiscard]] absl::Status DescribeFaults(const RowPlaces& places, const absl::Status& faults);

}  // namespace calibd::cli

#endif  // CALIBD_CLIENT_CLI_FILES_PREDICTION_FILE_H_
