#ifndef CALIBD_CLIENT_CLI_FILES_INPUT_OPTIONS_H_
#define CALIBD_CLIENT_CLI_FILES_INPUT_OPTIONS_H_

#include <optional>
#include <string>
#include <vector>

#include "CLI/CLI.hpp"
#include "client/cli/files/column_plan.h"

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
  // See ColumnExpectation; not an option of the user.
  bool finds_positive_class = false;
  // File with the ids of the predictions, whose labels may then come later.
  std::string ids;
  // File with the values of the model's group tag.
  std::string groups;
  // File with numbers that are known of each case. Empty: they are in the columns, if anywhere.
  std::string features;
  ColumnOptions columns;
  // Names in the order of the classes; empty if unknown.
  std::vector<std::string> class_names;
  // The name or the number of the class whose probability is the only column. Empty: there is one
  // column for each class.
  std::string positive_class;
  bool logits = false;
  bool renormalise = false;
  // Not an option: false if the command has a use for predictions without labels and ids.
  bool labels_needed = true;
};

// Adds the options of `columns` that files of classes and of forecasts of a number have: those
// whose names are kTableOptions. columns: must outlive the command.
void AddTableOptions(CLI::App& command, ColumnOptions& columns);
inline constexpr const char* kTableOptions[] = {"--header",      "--delimiter",    "--label-column",
                                                "--id-column",   "--group-column", "--drop-column",
                                                "--drop-invalid"};
// Adds these and the other options of `input` except ids, groups and features to a command. input:
// must outlive the command.
void AddInputOptions(CLI::App& command, InputOptions& input);

// Adds --drop-invalid, which AddTableOptions includes. columns: must outlive the command.
void AddDropInvalid(CLI::App& command, ColumnOptions& columns);

// Returns what is wrong with the combination of options; unset if it is valid.
[[nodiscard]] std::optional<std::string> FindUsageFault(const InputOptions& input);

// Returns what an option states that only models of classes have; unset if there is no such option.
// kind: says what another model does, such as "forecasts a number".
[[nodiscard]] std::optional<std::string> FindClassOption(const InputOptions& input,
                                                         const char* kind);

// The options that name the file of labels by id.
struct LabelFileOptions {
  std::string path;
  std::optional<int> label_base;
  ColumnOptions columns;
};

// Adds the options of `file` to a command. file: must outlive the command.
void AddLabelFileOptions(CLI::App& command, LabelFileOptions& file);

}  // namespace calibd::cli

#endif  // CALIBD_CLIENT_CLI_FILES_INPUT_OPTIONS_H_
