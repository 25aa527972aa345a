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

// The arguments and options that name the input files.
struct InputOptions {
  std::string predictions;
  std::string labels;
  std::optional<int> label_base;
  bool labels_last_column = false;
  // File with the ids of the predictions, whose labels may then come later.
  std::string ids;
  // File with the values of the model's group tag.
  std::string groups;
  bool header = false;
  bool logits = false;
  bool drop_invalid = false;
};

// Adds the options of `input` except ids and groups to a command. input: must outlive the command.
void AddInputOptions(CLI::App& command, InputOptions& input);

// Returns what is wrong with the combination of options; unset if it is valid.
[[nodiscard]] std::optional<std::string> FindUsageFault(const InputOptions& input);

// Predictions with their own memory.
struct Input {
  // n x class_count, row-major: probabilities or logits.
  std::vector<double> values;
  // n labels, 0-based; empty if they come later. With drop_invalid, -1: out of range.
  std::vector<std::int32_t> labels;
  // n ids, or empty.
  std::vector<std::string> ids;
  // n group values, or empty.
  std::vector<std::string> groups;
  std::size_t class_count = 0;
  // Whether the files are NumPy files instead of CSV.
  bool predictions_are_npy = false;
  bool labels_are_npy = false;
};

// Reads CSV or NumPy files, which differ in their first byte. Checks shapes and labels, but not the
// values of the rows. Errors: InvalidArgument naming the file, line and column; for a file that
// cannot be read, the status of the system's error, such as NotFound.
[[nodiscard]] absl::StatusOr<Input> ReadInput(const InputOptions& options);

// Replaces the rows in an error message by their places in the files: "rows[1].probabilities[0] is
// 2" becomes "p.csv line 2, column 1 is 2".
[[nodiscard]] std::string NameLines(const InputOptions& options, const Input& input,
                                    const std::string& faults);

// The options that name the file of labels by id.
struct LabelFileOptions {
  std::string path;
  std::optional<int> label_base;
  bool header = false;
};

// Returns what is wrong with the combination of options; unset if it is valid.
[[nodiscard]] std::optional<std::string> FindUsageFault(const LabelFileOptions& options);

// Returns the labels as they are in the file. Errors: like ReadInput.
[[nodiscard]] absl::StatusOr<LabelsById> ReadLabelFile(const LabelFileOptions& options);

// Like NameLines above, for labels.
[[nodiscard]] std::string NameLines(const LabelFileOptions& options, const std::string& faults);

// Returns the labels of the file, 0-based. Errors: InvalidArgument naming the line of the first
// label that is not one of class_count classes.
[[nodiscard]] absl::StatusOr<std::vector<std::int32_t>> ToClasses(const LabelFileOptions& options,
                                                                  const LabelsById& file,
                                                                  std::size_t class_count);

}  // namespace calibd::cli

#endif  // CALIBD_CLI_PREDICTION_FILE_H_
