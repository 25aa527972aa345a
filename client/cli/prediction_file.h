#ifndef CALIBD_CLI_PREDICTION_FILE_H_
#define CALIBD_CLI_PREDICTION_FILE_H_

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "CLI/App.hpp"
#include "absl/status/statusor.h"
#include "csv_reader.h"

namespace calibd::cli {

// Where predictions and their labels are read from, as the user said it.
struct InputOptions {
  std::string predictions;
  std::string labels;
  std::optional<int> label_base;
  bool labels_last_column = false;
  // With ids, labels may come later.
  std::string ids;
  // File with the values of the model's group tag.
  std::string groups;
  bool header = false;
  bool logits = false;
  bool drop_invalid = false;
};

// Adds the arguments and options of `input`, but the ids and groups, to a command. input outlives
// it.
void AddInputOptions(CLI::App& command, InputOptions& input);

// What is wrong with the options taken together; unset when nothing is.
[[nodiscard]] std::optional<std::string> FindUsageFault(const InputOptions& input);

// Predictions that own their memory.
struct Input {
  // n x class_count, row-major: probabilities or logits.
  std::vector<double> values;
  // n, 0-based; empty if they come later. -1 stands for a label out of range, with
  // drop_invalid alone.
  std::vector<std::int32_t> labels;
  // n, or none.
  std::vector<std::string> ids;
  // n, or none.
  std::vector<std::string> groups;
  std::size_t class_count = 0;
  // Which files were NumPy files rather than CSV.
  bool predictions_are_npy = false;
  bool labels_are_npy = false;
};

// Reads CSV or NumPy files, told apart by their first byte. Checks shapes and
// labels; what the rows hold is checked where they are used.
// Errors: InvalidArgument naming the file, line and column; for a file that cannot be read, the
// status of the system's error, such as NotFound.
[[nodiscard]] absl::StatusOr<Input> ReadInput(const InputOptions& options);

// Replaces the rows in a description of faults by their places in the files:
// "rows[1].probabilities[0] is 2" becomes "p.csv line 2, column 1 is 2".
[[nodiscard]] std::string NameLines(const InputOptions& options, const Input& input,
                                    const std::string& faults);

// Where the labels of predictions that were sent with ids are read from.
struct LabelFileOptions {
  std::string path;
  std::optional<int> label_base;
  bool header = false;
};

// What is wrong with the options taken together; unset when nothing is.
[[nodiscard]] std::optional<std::string> FindUsageFault(const LabelFileOptions& options);

// The labels as in the file. Errors: as ReadInput.
[[nodiscard]] absl::StatusOr<LabelsById> ReadLabelFile(const LabelFileOptions& options);

// As NameLines above, for labels.
[[nodiscard]] std::string NameLines(const LabelFileOptions& options, const std::string& faults);

// The labels of the file, 0-based. Errors: InvalidArgument naming the line of the first that
// is not one of class_count classes.
[[nodiscard]] absl::StatusOr<std::vector<std::int32_t>> ToClasses(const LabelFileOptions& options,
                                                                  const LabelsById& file,
                                                                  std::size_t class_count);

}  // namespace calibd::cli

#endif  // CALIBD_CLI_PREDICTION_FILE_H_
