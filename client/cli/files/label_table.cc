#include "client/cli/files/label_table.h"

#include <algorithm>
#include <cmath>
#include <functional>
#include <limits>
#include <span>
#include <string_view>
#include <utility>

#include "absl/status/status.h"
#include "absl/strings/ascii.h"
#include "absl/strings/str_cat.h"
#include "calibd/core/probability.h"
#include "calibd/core/status_macros.h"
#include "calibd/core/validation.h"
#include "client/cli/files/file_format.h"
#include "client/cli/files/label_parser.h"
#include "client/cli/files/row_faults.h"
#include "client/cli/files/text_row.h"

namespace calibd::cli {
namespace {

constexpr std::string_view kProbabilityPrefix = "prob_";
constexpr std::string_view kTruthPrefix = "label_";
// Neither a truth nor a missing one.
constexpr std::int8_t kUnreadableTruth = 2;

std::string Prefixed(std::string_view prefix, const std::string& name) {
  return absl::StrCat(std::string(prefix), name);
}

// The names of the columns with the prefix, without it. Errors: InvalidArgument if two are equal.
absl::StatusOr<std::vector<std::string>> NamesWith(std::string_view prefix,
                                                   const std::string& source,
                                                   std::span<const std::string> columns) {
  std::vector<std::string> names;
  for (const std::string& column : columns) {
    if (!column.starts_with(prefix)) continue;
    const std::string name = column.substr(prefix.size());
    if (std::ranges::find(names, name) != names.end()) {
      return FileError(source, absl::StrCat("has two columns ", Quote(column)));
    }
    names.push_back(name);
  }
  return names;
}

// The columns that a file of several labels has, in the words of its columns.
absl::Status NoLabelsError(const std::string& source, std::span<const std::string> columns) {
  return FileError(
      source, absl::StrCat(
                  "has the columns ", ListNames(columns),
                  ", expected two for each label NAME: prob_NAME, the probability that the label "
                  "holds, and label_NAME, 1 if it holds, 0 if it does not, or empty if this is not "
                  "known. Name the columns in the first line, such as "
                  "prob_rain,label_rain,prob_wind,label_wind, or in the keys of JSON Lines. For "
                  "classes that exclude each other, use calibctl evaluate"));
}

// Returns the column with the prefix of each label. other_prefix: of the columns that must match.
// Errors: InvalidArgument if a label has no column, or a column of the prefix no label.
absl::StatusOr<std::vector<std::size_t>> ColumnsOf(std::string_view prefix,
                                                   std::string_view other_prefix,
                                                   std::span<const std::string> labels,
                                                   const std::string& source,
                                                   std::span<const std::string> columns) {
  CALIBD_ASSIGN_OR_RETURN(const std::vector<std::string> names, NamesWith(prefix, source, columns));
  std::vector<std::size_t> found;
  for (const std::string& label : labels) {
    const auto column = std::ranges::find(columns, Prefixed(prefix, label));
    if (column == columns.end()) {
      return FileError(source, absl::StrCat("has the column ", Quote(Prefixed(other_prefix, label)),
                                            ", but no ", Quote(Prefixed(prefix, label))));
    }
    found.push_back(static_cast<std::size_t>(column - columns.begin()));
  }
  const auto is_label = [&](const std::string& name) {
    return std::ranges::find(labels, name) != labels.end();
  };
  if (const auto other = std::ranges::find_if_not(names, is_label); other != names.end()) {
    return FileError(source, absl::StrCat("has the column ", Quote(Prefixed(prefix, *other)),
                                          ", but no ", Quote(Prefixed(other_prefix, *other))));
  }
  return found;
}

// Errors: InvalidArgument unless the columns with the prefix are those of the labels of a model.
absl::Status CheckLabels(std::string_view prefix, std::span<const std::string> labels,
                         const std::string& source, std::vector<std::string> found) {
  std::vector<std::string> expected(labels.begin(), labels.end());
  std::ranges::sort(expected);
  std::ranges::sort(found);
  if (found == expected) return absl::OkStatus();
  return FileError(source, absl::StrCat("has the columns ", std::string(prefix), "NAME of ",
                                        found.empty() ? "no label" : ListNames(found),
                                        ", expected those of the labels ", ListNames(labels)));
}

// labels: those of the model; empty to take those of the file. truths_needed: the truths may not
// come later.
absl::StatusOr<ColumnPlan> PlanLabels(const ColumnOptions& options,
                                      std::span<const std::string> labels, bool truths_needed,
                                      const std::string& source,
                                      std::span<const std::string> columns) {
  const UsualNames usual{.truth = "", .id = "id", .time = "time", .group = ""};
  CALIBD_ASSIGN_OR_RETURN(
      ColumnPlan plan, AssignColumns(options, truths_needed ? UsualNames() : usual, false, source,
                                     columns, columns.size()));
  CALIBD_ASSIGN_OR_RETURN(plan.value_names, NamesWith(kProbabilityPrefix, source, columns));
  if (!labels.empty()) {
    CALIBD_RETURN_IF_ERROR(CheckLabels(kProbabilityPrefix, labels, source, plan.value_names));
    plan.value_names.assign(labels.begin(), labels.end());
  }
  const std::vector<std::string>& names = plan.value_names;
  if (names.empty()) return NoLabelsError(source, columns);
  const bool has_truths = std::ranges::any_of(
      columns, [](const std::string& column) { return column.starts_with(kTruthPrefix); });
  if (truths_needed || has_truths) {
    CALIBD_ASSIGN_OR_RETURN(plan.truths,
                            ColumnsOf(kTruthPrefix, kProbabilityPrefix, names, source, columns));
  }
  CALIBD_ASSIGN_OR_RETURN(plan.values,
                          ColumnsOf(kProbabilityPrefix, kTruthPrefix, names, source, columns));
  if (names.size() <= kMaxLabelCount) return plan;
  return FileError(
      source, absl::StrCat("has ", names.size(),
                           " columns whose names begin with prob_, expected 1..", kMaxLabelCount));
}

// An id, and the truths of the labels.
absl::StatusOr<ColumnPlan> PlanTruths(const ColumnOptions& options,
                                      std::span<const std::string> labels,
                                      const std::string& source,
                                      std::span<const std::string> columns) {
  ColumnOptions stated;
  stated.id = options.id.empty() ? "id" : options.id;
  CALIBD_ASSIGN_OR_RETURN(ColumnPlan plan,
                          AssignColumns(stated, {}, false, source, columns, columns.size()));
  plan.values.clear();
  CALIBD_ASSIGN_OR_RETURN(std::vector<std::string> found, NamesWith(kTruthPrefix, source, columns));
  CALIBD_RETURN_IF_ERROR(CheckLabels(kTruthPrefix, labels, source, std::move(found)));
  CALIBD_ASSIGN_OR_RETURN(plan.truths,
                          ColumnsOf(kTruthPrefix, kProbabilityPrefix, labels, source, columns));
  return plan;
}

// NaN: the truth is missing.
absl::StatusOr<double> ParseTruth(std::string_view text) {
  if (text == "0") return 0;
  if (text == "1") return 1;
  if (IsMissing(text)) return std::numeric_limits<double>::quiet_NaN();
  const std::string lower = absl::AsciiStrToLower(std::string(text));
  if (lower == "true" || lower == "1.0") return 1;
  if (lower == "false" || lower == "0.0") return 0;
  return absl::InvalidArgumentError(
      absl::StrCat("truth ", Quote(text), ", expected 0, 1, or nothing for a missing truth"));
}

template <typename T>
std::vector<T> Truths(std::span<const double> truths) {
  std::vector<T> result(truths.size());
  std::ranges::transform(truths, result.begin(), [](double truth) -> T {
    if (std::isnan(truth)) return kMissingTruth;
    return std::isinf(truth) ? kUnreadableTruth : static_cast<T>(truth);
  });
  return result;
}

// The labels are found by the names of their columns, so the file must have some.
absl::StatusOr<Table> Read(
    InputFile& file, const ColumnOptions& options, std::string_view value,
    const std::function<absl::StatusOr<ColumnPlan>(const TableHead& head)>& plan) {
  if (file.format != FileFormat::kCsv && file.format != FileFormat::kJsonLines) {
    return FileError(file.name, "is an array, expected CSV with a header or JSON Lines");
  }
  const TableSchema schema{
      .options = options,
      .is_header = [](std::span<const std::string_view> /*row*/) { return true; },
      .plan = plan,
      .parse_truth = ParseTruth,
      .value = value};
  CALIBD_ASSIGN_OR_RETURN(Table table, ReadTable(file, schema));
  if (table.row_count == 0) return FileError(file.name, "has no rows");
  return table;
}

}  // namespace

std::vector<std::int32_t> TruthsToSend(const Table& table) {
  return Truths<std::int32_t>(table.truths);
}

absl::StatusOr<Table> ReadLabels(const InputOptions& options, std::span<const std::string> labels) {
  CALIBD_ASSIGN_OR_RETURN(InputFile file, OpenInput(options.predictions));
  CALIBD_ASSIGN_OR_RETURN(Table table, Read(file, options.columns,
                                            options.logits ? "a logit" : "a probability in [0, 1]",
                                            [&](const TableHead& head) {
                                              return PlanLabels(options.columns, labels,
                                                                /*truths_needed=*/false, file.name,
                                                                head.names);
                                            }));
  if (!options.logits) table.changes.rounded_probabilities = RoundToProbabilities(table.values);
  CALIBD_RETURN_IF_ERROR(ReadOtherFiles(options, table));
  return table;
}

absl::StatusOr<Table> ReadLabelTruths(const LabelFileOptions& options,
                                      std::span<const std::string> labels) {
  CALIBD_ASSIGN_OR_RETURN(InputFile file, OpenInput(options.path));
  return Read(file, options.columns, "", [&](const TableHead& head) {
    return PlanTruths(options.columns, labels, file.name, head.names);
  });
}

absl::StatusOr<LabelTable> ReadLabelTable(const std::string& path, const ColumnOptions& columns) {
  CALIBD_ASSIGN_OR_RETURN(InputFile file, OpenInput(path));
  LabelTable table;
  CALIBD_ASSIGN_OR_RETURN(
      static_cast<Table&>(table),
      Read(file, columns, "a probability in [0, 1]", [&](const TableHead& head) {
        return PlanLabels(columns, {}, /*truths_needed=*/true, file.name, head.names);
      }));
  table.changes.rounded_probabilities = RoundToProbabilities(table.values);
  table.names = table.columns.value_names;
  table.labels = Truths<std::int8_t>(table.truths);
  if (!columns.drop_invalid) {
    const auto violations = FindViolations(table.view());
    if (violations.empty()) return table;
    return DescribeFaults(table, violations);
  }
  DropInvalidRows(
      [&](std::size_t row) { return FindViolations(table.view().rows(row, 1)).empty(); }, table);
  table.labels = Truths<std::int8_t>(table.truths);
  if (table.row_count == 0) return FileError(path, "has no valid rows");
  return table;
}

}  // namespace calibd::cli
