#include "prediction_file.h"

#include <cerrno>
#include <filesystem>
#include <fstream>
#include <regex>
#include <system_error>
#include <utility>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "calibd/core/status_macros.h"
#include "csv_reader.h"
#include "npy_reader.h"

namespace calibd::cli {
namespace {

absl::StatusOr<std::ifstream> Open(const std::string& path) {
  std::ifstream input(path, std::ios::binary);
  const int open_error = errno;
  if (!input) return absl::ErrnoToStatus(open_error, absl::StrCat("cannot read ", path));
  std::error_code ignored;
  if (std::filesystem::is_directory(path, ignored)) {
    return absl::ErrnoToStatus(EISDIR, absl::StrCat("cannot read ", path));
  }
  return input;
}

// Returns the place of row i, counted from 0, in a file.
std::string Place(const std::string& path, std::size_t i, bool is_npy, bool header) {
  return is_npy ? absl::StrCat(path, " row ", i, " (counted from 0)")
                : absl::StrCat(path, " line ", i + (header ? 2 : 1));
}

// Replaces each "rows[i].field[k]" and "labels[i]" by place(field, i) and the column.
template <typename PlaceOf>
std::string ReplaceRows(const std::string& faults, const PlaceOf& place) {
  static const std::regex kRow(R"((rows|labels)\[(\d+)\](?:\.(\w+))?(?:\[(\d+)\])?)");
  std::string text;
  auto rest = faults.begin();
  for (std::sregex_iterator row(faults.begin(), faults.end(), kRow), end; row != end; ++row) {
    const std::smatch& match = *row;
    text.append(rest, match[0].first);
    rest = match[0].second;
    text += place(match[3].matched ? match[3].str() : match[1].str(), std::stoull(match[2].str()));
    if (match[4].matched) absl::StrAppend(&text, ", column ", std::stoull(match[4].str()) + 1);
  }
  return text.append(rest, faults.end());
}

absl::StatusOr<Table> ReadTable(const InputOptions& options, bool& is_npy) {
  CALIBD_ASSIGN_OR_RETURN(auto file, Open(options.predictions));
  is_npy = LooksLikeNpy(file);
  if (!is_npy) {
    return ReadCsv(file, options.predictions,
                   {.header = options.header, .last_column_is_label = options.labels_last_column});
  }
  if (options.labels_last_column || options.header) {
    return absl::InvalidArgumentError(absl::StrCat(
        options.predictions, " is a NumPy file: --labels-last-column and --header are for CSV"));
  }
  return ReadNpy(file, options.predictions);
}

absl::StatusOr<std::vector<std::int64_t>> ReadLabels(const InputOptions& options, bool& is_npy) {
  CALIBD_ASSIGN_OR_RETURN(auto file, Open(options.labels));
  is_npy = LooksLikeNpy(file);
  return is_npy ? ReadNpyLabels(file, options.labels)
                : ReadCsvLabels(file, options.labels, options.header);
}

// Reads a file with one text for each of row_count predictions. noun: names the texts in errors.
absl::StatusOr<std::vector<std::string>> ReadTexts(const std::string& path, const char* noun,
                                                   std::size_t row_count, bool header) {
  CALIBD_ASSIGN_OR_RETURN(auto file, Open(path));
  auto texts = ReadCsvIds(file, path, header);
  if (texts.ok() && texts->size() != row_count) {
    return absl::InvalidArgumentError(absl::StrCat(path, " holds ", texts->size(), " ", noun,
                                                   ", expected ", row_count,
                                                   ", one for each prediction"));
  }
  return texts;
}

constexpr char kLabelBaseMissing[] =
    "--label-base is missing: use --label-base 0 if the first class is numbered 0 in the labels, "
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
                     "CSV (one prediction per line, one column per class) or NumPy file (.npy, n x "
                     "m of float32 or float64)");
  command.add_option("LABELS", input.labels,
                     "CSV (one class number per line) or NumPy file (n integers)");
  command
      .add_option("--label-base", input.label_base,
                  "number of the first class in LABELS, 0 or 1; required, never guessed")
      ->check(CLI::IsMember({0, 1}));
  command.add_flag(
      "--labels-last-column", input.labels_last_column,
      "the last column of PREDICTIONS (CSV) holds the labels; LABELS is then left out");
  command.add_flag("--header", input.header, "the first line of a CSV file holds names; skip it");
  command.add_flag("--logits", input.logits,
                   "the values are logits; the softmax turns them into probabilities");
  command.add_flag("--drop-invalid", input.drop_invalid,
                   "leave out invalid rows and count them; by default an invalid row is an error");
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
  Input input;
  CALIBD_ASSIGN_OR_RETURN(auto table, ReadTable(options, input.predictions_are_npy));
  const bool labelled = options.labels_last_column || !options.labels.empty();
  if (!options.labels.empty()) {
    CALIBD_ASSIGN_OR_RETURN(auto labels, ReadLabels(options, input.labels_are_npy));
    table.labels = std::move(labels);
  }
  if (labelled && table.labels.size() != table.row_count) {
    return absl::InvalidArgumentError(absl::StrCat(options.labels, " holds ", table.labels.size(),
                                                   " labels, expected ", table.row_count,
                                                   ", one for each prediction"));
  }
  if (table.column_count < 2) {
    return absl::InvalidArgumentError(
        absl::StrCat(options.predictions, " has ", table.column_count,
                     " columns of probabilities, expected one for each of 2 classes or more"));
  }
  input.class_count = table.column_count;
  input.values = std::move(table.values);
  if (!options.ids.empty()) {
    CALIBD_ASSIGN_OR_RETURN(auto ids,
                            ReadTexts(options.ids, "ids", table.row_count, options.header));
    input.ids = std::move(ids);
  }
  if (!options.groups.empty()) {
    CALIBD_ASSIGN_OR_RETURN(
        auto groups, ReadTexts(options.groups, "group values", table.row_count, options.header));
    input.groups = std::move(groups);
  }
  input.labels.reserve(table.labels.size());
  const std::int64_t base = options.label_base.value_or(0);
  for (std::size_t i = 0; i < table.labels.size(); ++i) {
    const std::int64_t label = table.labels[i];
    const bool valid = IsClass(label, base, table.column_count);
    if (!valid && !options.drop_invalid) {
      const std::string& path = options.labels_last_column ? options.predictions : options.labels;
      return absl::InvalidArgumentError(
          absl::StrCat(Place(path, i, input.labels_are_npy, options.header), ": label ", label,
                       ExpectedLabels(base, table.column_count)));
    }
    input.labels.push_back(valid ? static_cast<std::int32_t>(label - base) : -1);
  }
  return input;
}

std::string NameLines(const InputOptions& options, const Input& input, const std::string& faults) {
  return ReplaceRows(faults, [&](const std::string& field, std::size_t i) {
    if (field == "labels" && !options.labels.empty()) {
      return Place(options.labels, i, input.labels_are_npy, options.header);
    }
    if (field == "prediction_ids") return Place(options.ids, i, false, options.header);
    return Place(options.predictions, i, input.predictions_are_npy, options.header);
  });
}

std::string NameLines(const LabelFileOptions& options, const std::string& faults) {
  return ReplaceRows(faults, [&](const std::string& /*field*/, std::size_t i) {
    return Place(options.path, i, false, options.header);
  });
}

std::optional<std::string> FindUsageFault(const LabelFileOptions& options) {
  if (options.label_base.has_value()) return std::nullopt;
  return kLabelBaseMissing;
}

absl::StatusOr<LabelsById> ReadLabelFile(const LabelFileOptions& options) {
  CALIBD_ASSIGN_OR_RETURN(auto file, Open(options.path));
  return ReadCsvLabelsById(file, options.path, options.header);
}

absl::StatusOr<std::vector<std::int32_t>> ToClasses(const LabelFileOptions& options,
                                                    const LabelsById& file,
                                                    std::size_t class_count) {
  const std::int64_t base = *options.label_base;
  std::vector<std::int32_t> classes;
  classes.reserve(file.labels.size());
  for (const std::int64_t label : file.labels) {
    if (!IsClass(label, base, class_count)) {
      return absl::InvalidArgumentError(
          absl::StrCat(Place(options.path, classes.size(), false, options.header), ": label ",
                       label, ExpectedLabels(base, class_count)));
    }
    classes.push_back(static_cast<std::int32_t>(label - base));
  }
  return classes;
}

}  // namespace calibd::cli
