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
  // Of the values of the model's group tag.
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
  // n, 0-based; none when they come later. -1 stands for a label out of range, with
  // drop_invalid alone.
  std::vector<std::int32_t> labels;
  // n, or none.
  std::vector<std::string> ids;
  // n, or none.
  std::vector<std::string> groups;
  std::size_t class_count = 0;
};

// Reads CSV or NumPy files, told apart by their first byte. Checks shapes and
// labels; what the rows hold is checked where they are used.
// Errors: NotFound; InvalidArgument naming the file, line and column.
[[nodiscard]] absl::StatusOr<Input> ReadInput(const InputOptions& options);

// Where the labels of predictions that were sent with ids are read from.
struct LabelFileOptions {
  std::string path;
  std::optional<int> label_base;
  bool header = false;
};

// What is wrong with the options taken together; unset when nothing is.
[[nodiscard]] std::optional<std::string> FindUsageFault(const LabelFileOptions& options);

// As the file has them. Errors: NotFound; InvalidArgument naming the line.
[[nodiscard]] absl::StatusOr<LabelsById> ReadLabelFile(const LabelFileOptions& options);

// The labels of the file, 0-based. Errors: InvalidArgument naming the line of the first that
// is not one of class_count classes.
[[nodiscard]] absl::StatusOr<std::vector<std::int32_t>> ToClasses(const LabelFileOptions& options,
                                                                  const LabelsById& file,
                                                                  std::size_t class_count);

}  // namespace calibd::cli

#endif  // CALIBD_CLI_PREDICTION_FILE_H_
