#include "prediction_file.h"

#include <cerrno>
#include <fstream>
#include <system_error>
#include <utility>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "csv_reader.h"
#include "npy_reader.h"

namespace calibd::cli {
namespace {

absl::StatusOr<std::ifstream> Open(const std::string& path) {
  std::ifstream input(path, std::ios::binary);
  if (!input) {
    return absl::NotFoundError(
        absl::StrCat("cannot read ", path, ": ", std::generic_category().message(errno)));
  }
  return input;
}

absl::StatusOr<Table> ReadTable(const InputOptions& options) {
  auto file = Open(options.predictions);
  if (!file.ok()) return file.status();
  if (!LooksLikeNpy(*file)) {
    return ReadCsv(*file, options.predictions,
                   {.header = options.header, .last_column_is_label = options.labels_last_column});
  }
  if (options.labels_last_column || options.header) {
    return absl::InvalidArgumentError(absl::StrCat(
        options.predictions, " is a NumPy file: --labels-last-column and --header are for CSV"));
  }
  return ReadNpy(*file, options.predictions);
}

absl::StatusOr<std::vector<std::int64_t>> ReadLabels(const InputOptions& options) {
  auto file = Open(options.labels);
  if (!file.ok()) return file.status();
  return LooksLikeNpy(*file) ? ReadNpyLabels(*file, options.labels)
                             : ReadCsvLabels(*file, options.labels, options.header);
}

// A file with a text for each of row_count predictions. noun: what it holds.
absl::StatusOr<std::vector<std::string>> ReadTexts(const std::string& path, const char* noun,
                                                   std::size_t row_count, bool header) {
  auto file = Open(path);
  if (!file.ok()) return file.status();
  auto texts = ReadCsvIds(*file, path, header);
  if (texts.ok() && texts->size() != row_count) {
    return absl::InvalidArgumentError(absl::StrCat(path, " holds ", texts->size(), " ", noun,
                                                   ", expected ", row_count,
                                                   ", one for each prediction"));
  }
  return texts;
}

constexpr char kLabelBaseMissing[] =
    "--label-base is missing: say --label-base 0 if the first class is numbered 0 in the labels, "
    "or --label-base 1 if it is numbered 1. A wrong guess would shift every label by one class, "
    "so calibctl does not guess";

std::string ExpectedLabels(std::int64_t base, std::size_t class_count) {
  return absl::StrCat(", expected ", base, "..", base + static_cast<std::int64_t>(class_count) - 1,
                      " with --label-base ", base);
}

bool IsClass(std::int64_t label, std::int64_t base, std::size_t class_count) {
  return label >= base && label - base < static_cast<std::int64_t>(class_count);
}

}  // namespace

void AddInputOptions(CLI::App& command, InputOptions& input) {
  command.add_option("PREDICTIONS", input.predictions,
                     "CSV (one prediction a line, one column a class) or NumPy file "
                     "(.npy, n x m of float32 or float64)");
  command.add_option("LABELS", input.labels,
                     "CSV (one class number a line) or NumPy file (n integers)");
  command
      .add_option("--label-base", input.label_base,
                  "number of the first class in LABELS, 0 or 1; must be said, is never guessed")
      ->check(CLI::IsMember({0, 1}));
  command.add_flag("--labels-last-column", input.labels_last_column,
                   "the last column of PREDICTIONS (CSV) holds the labels; no LABELS then");
  command.add_flag("--header", input.header, "the first line of a CSV file holds names; skip it");
  command.add_flag("--logits", input.logits,
                   "the values are logits; they become probabilities by the softmax");
  command.add_flag("--drop-invalid", input.drop_invalid,
                   "leave out invalid rows and count them; without it they are an error");
}

std::optional<std::string> FindUsageFault(const InputOptions& input) {
  if (input.predictions.empty()) return "PREDICTIONS is missing: give a CSV or NumPy file";
  const bool labelled = input.labels_last_column || !input.labels.empty();
  if (!input.ids.empty() && !labelled) return std::nullopt;
  if (!input.label_base.has_value()) return kLabelBaseMissing;
  if (input.labels_last_column != input.labels.empty()) {
    return input.labels_last_column ? "give LABELS or --labels-last-column, not both"
                                    : "LABELS is missing: give a file, or --labels-last-column if "
                                      "the labels are the last column of PREDICTIONS";
  }
  return std::nullopt;
}

absl::StatusOr<Input> ReadInput(const InputOptions& options) {
  auto table = ReadTable(options);
  if (!table.ok()) return table.status();
  const bool labelled = options.labels_last_column || !options.labels.empty();
  if (!options.labels.empty()) {
    auto labels = ReadLabels(options);
    if (!labels.ok()) return labels.status();
    table->labels = *std::move(labels);
  }
  if (labelled && table->labels.size() != table->row_count) {
    return absl::InvalidArgumentError(absl::StrCat(options.labels, " holds ", table->labels.size(),
                                                   " labels, expected ", table->row_count,
                                                   ", one for each prediction"));
  }
  if (table->column_count < 2) {
    return absl::InvalidArgumentError(
        absl::StrCat(options.predictions, " has ", table->column_count,
                     " columns of probabilities, expected one for each of 2 classes or more"));
  }
  Input input;
  input.class_count = table->column_count;
  input.values = std::move(table->values);
  if (!options.ids.empty()) {
    auto ids = ReadTexts(options.ids, "ids", table->row_count, options.header);
    if (!ids.ok()) return ids.status();
    input.ids = *std::move(ids);
  }
  if (!options.groups.empty()) {
    auto groups = ReadTexts(options.groups, "group values", table->row_count, options.header);
    if (!groups.ok()) return groups.status();
    input.groups = *std::move(groups);
  }
  input.labels.reserve(table->labels.size());
  const std::int64_t base = options.label_base.value_or(0);
  for (std::size_t i = 0; i < table->labels.size(); ++i) {
    const std::int64_t label = table->labels[i];
    const bool valid = IsClass(label, base, table->column_count);
    if (!valid && !options.drop_invalid) {
      return absl::InvalidArgumentError(
          absl::StrCat(options.labels_last_column ? options.predictions : options.labels,
                       ": label ", i + 1, " = ", label, ExpectedLabels(base, table->column_count)));
    }
    input.labels.push_back(valid ? static_cast<std::int32_t>(label - base) : -1);
  }
  return input;
}

std::optional<std::string> FindUsageFault(const LabelFileOptions& options) {
  if (options.label_base.has_value()) return std::nullopt;
  return kLabelBaseMissing;
}

absl::StatusOr<LabelsById> ReadLabelFile(const LabelFileOptions& options) {
  auto file = Open(options.path);
  if (!file.ok()) return file.status();
  return ReadCsvLabelsById(*file, options.path, options.header);
}

absl::StatusOr<std::vector<std::int32_t>> ToClasses(const LabelFileOptions& options,
                                                    const LabelsById& file,
                                                    std::size_t class_count) {
  const std::int64_t base = *options.label_base;
  std::vector<std::int32_t> classes;
  classes.reserve(file.labels.size());
  for (const std::int64_t label : file.labels) {
    if (!IsClass(label, base, class_count)) {
      const std::size_t line = classes.size() + (options.header ? 2 : 1);
      return absl::InvalidArgumentError(absl::StrCat(options.path, " line ", line, ": label ",
                                                     label, ExpectedLabels(base, class_count)));
    }
    classes.push_back(static_cast<std::int32_t>(label - base));
  }
  return classes;
}

}  // namespace calibd::cli
