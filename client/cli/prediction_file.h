#ifndef CALIBD_CLI_PREDICTION_FILE_H_
#define CALIBD_CLI_PREDICTION_FILE_H_

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "CLI/App.hpp"
#include "absl/status/statusor.h"

namespace calibd::cli {

// Where labelled predictions are read from, as the user said it.
struct InputOptions {
  std::string predictions;
  std::string labels;
  std::optional<int> label_base;
  bool labels_last_column = false;
  bool header = false;
  bool logits = false;
  bool drop_invalid = false;
};

// Adds the arguments and options of `input` to a command. input outlives it.
void AddInputOptions(CLI::App& command, InputOptions& input);

// What is wrong with the options taken together; unset when nothing is.
[[nodiscard]] std::optional<std::string> FindUsageFault(const InputOptions& input);

// Labelled predictions that own their memory.
struct Input {
  // n x class_count, row-major: probabilities or logits.
  std::vector<double> values;
  // 0-based. -1 stands for a label out of range, with drop_invalid alone.
  std::vector<std::int32_t> labels;
  std::size_t class_count = 0;
};

// Reads CSV or NumPy files, told apart by their first byte. Checks shapes and
// labels; what the rows hold is checked where they are used.
// Errors: NotFound; InvalidArgument naming the file, line and column.
[[nodiscard]] absl::StatusOr<Input> ReadInput(const InputOptions& options);

}  // namespace calibd::cli

#endif  // CALIBD_CLI_PREDICTION_FILE_H_
