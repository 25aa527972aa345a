#include "client/cli/files/input_options.h"

#include <utility>

#include "absl/strings/str_cat.h"

namespace calibd::cli {
namespace {

void AddLabelBase(CLI::App& command, std::optional<int>& base) {
  command
      .add_option("--label-base", base,
                  "number of the first class in the labels, 0 or 1; never guessed. Leave it out if "
                  "the labels are class names")
      ->check(CLI::IsMember({0, 1}));
}

void AddColumnOptions(CLI::App& command, ColumnOptions& columns) {
  command.add_flag_function(
      "--header,!--no-header", [&columns](std::int64_t count) { columns.header = count > 0; },
      "the first line of each CSV file holds names, or does not; default: decided by the "
      "line; ids and groups have no header");
  command.add_option(
      "--delimiter", columns.delimiter,
      "the character between the columns of CSV, or the word tab; default: a comma, or if "
      "the first line has none, a semicolon, a tab or a |");
  command.add_option(
      "--label-column", columns.label,
      "column (CSV), key (JSON Lines) or array (NPZ) with the labels or outcomes. A "
      "column is stated by its name in the header, or by its number from 1 without a "
      "header");
  command.add_option("--id-column", columns.id, "column or key with the ids of the predictions");
}

}  // namespace

void AddTableOptions(CLI::App& command, ColumnOptions& columns) {
  AddColumnOptions(command, columns);
  command.add_option("--group-column", columns.group, "column or key with the group of each row");
  command
      .add_option("--drop-column", columns.dropped,
                  "column or key that is not read; may be repeated, or list several: a,b")
      ->delimiter(',')
      ->allow_extra_args(false);
  AddDropInvalid(command, columns);
}

void AddDropInvalid(CLI::App& command, ColumnOptions& columns) {
  command.add_flag("--drop-invalid", columns.drop_invalid,
                   "leave out rows with missing or invalid values or labels, and count them; by "
                   "default an invalid row is an error");
}

void AddInputOptions(CLI::App& command, InputOptions& input) {
  command.add_option("PREDICTIONS", input.predictions,
                     "one row per prediction, one column per class: CSV, JSON Lines, or a NumPy "
                     "file (.npy or .npz); - is standard input");
  command.add_option("LABELS", input.labels,
                     "one label per row, a class number or a class name: CSV, JSON Lines or NumPy "
                     "file; left out if PREDICTIONS has a column or array of labels");
  AddLabelBase(command, input.label_base);
  command
      .add_option("--class-names", input.class_names,
                  "the classes in their order, a,b,c. Columns with names are matched to them; "
                  "columns without names must be in this order")
      ->delimiter(',')
      ->allow_extra_args(false);
  command.add_option("--positive-class", input.positive_class,
                     "PREDICTIONS has one column: the probability of this class, one of two. State "
                     "its name, or its number, which counts like the labels (default: from 0)");
  AddTableOptions(command, input.columns);
  command.add_flag("--labels-last-column", input.labels_last_column,
                   "the last column of PREDICTIONS (CSV) holds the labels");
  command.add_option("--time-column", input.columns.time,
                     "column or key with the times of the predictions: RFC 3339, such as "
                     "2026-01-31T12:30:00Z, or seconds since 1970");
  command.add_option(
      "--predictions-key", input.columns.predictions,
      "key (JSON Lines), array (NPZ) or the only column (CSV with a header) with the "
      "predictions; default: probabilities, y_prob, probs, predictions or logits; "
      "other keys and columns are then left out");
  command.add_flag("--logits", input.logits,
                   "the values are logits; the softmax turns them into probabilities");
  command.add_flag("--renormalise", input.renormalise,
                   "divide each row by its sum, and report the number of changed rows and the "
                   "largest correction; by default a wrong sum is an error");
}

void AddLabelFileOptions(CLI::App& command, LabelFileOptions& file) {
  command
      .add_option("FILE", file.path,
                  "CSV or JSON Lines: the id of a prediction and its label, a class number or a "
                  "class name, in each row; - is standard input")
      ->required();
  AddLabelBase(command, file.label_base);
  AddColumnOptions(command, file.columns);
  AddDropInvalid(command, file.columns);
}

std::optional<std::string> FindClassOption(const InputOptions& input, const char* kind) {
  const std::pair<bool, const char*> of_classes[] = {
      {input.label_base.has_value(), "--label-base"},
      {input.labels_last_column, "--labels-last-column"},
      {!input.class_names.empty(), "--class-names"},
      {!input.positive_class.empty(), "--positive-class"},
      {!input.columns.predictions.empty(), "--predictions-key"},
      {input.renormalise, "--renormalise"}};
  for (const auto& [is_set, option] : of_classes) {
    if (is_set) return absl::StrCat(option, " is for models of classes, this one ", kind);
  }
  return std::nullopt;
}

std::optional<std::string> FindUsageFault(const InputOptions& input) {
  if (input.predictions.empty()) {
    return "PREDICTIONS is missing: give a file, or - for standard input";
  }
  if (input.predictions == "-" && input.labels == "-") {
    return "PREDICTIONS and LABELS cannot both be standard input";
  }
  if (input.labels_last_column && !input.labels.empty()) {
    return "give LABELS or --labels-last-column, not both";
  }
  if (input.labels_last_column && !input.columns.label.empty()) {
    return "give --label-column or --labels-last-column, not both";
  }
  if (input.logits && input.renormalise) {
    return "--renormalise is for probabilities, not for --logits";
  }
  if (!input.ids.empty() && !input.columns.id.empty()) return "give --ids or --id-column, not both";
  if (!input.groups.empty() && !input.columns.group.empty()) {
    return "give --groups or --group-column, not both";
  }
  return std::nullopt;
}

}  // namespace calibd::cli
