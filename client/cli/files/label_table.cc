#include "client/cli/files/label_table.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <span>
#include <string_view>
#include <utility>

#include "absl/status/status.h"
#include "absl/strings/ascii.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "calibd/core/status_macros.h"
#include "calibd/core/validation.h"
#include "client/cli/files/file_format.h"
#include "client/cli/files/row_faults.h"
#include "client/cli/files/text_row.h"

namespace calibd::cli {
namespace {

constexpr std::string_view kProbabilityPrefix = "prob_";
constexpr std::string_view kTruthPrefix = "label_";
// Neither a truth nor a missing one.
constexpr std::int8_t kUnreadableTruth = 2;

absl::StatusOr<ColumnPlan> PlanLabels(const std::string& source,
                                      std::span<const std::string> columns) {
  ColumnPlan plan;
  std::vector<std::string>& names = plan.value_names;
  for (std::size_t column = 0; column < columns.size(); ++column) {
    if (!columns[column].starts_with(kProbabilityPrefix)) continue;
    const std::string name = columns[column].substr(kProbabilityPrefix.size());
    const std::string wanted = absl::StrCat(std::string(kTruthPrefix), name);
    const auto truth = std::ranges::find(columns, wanted);
    if (truth == columns.end()) {
      return FileError(source, absl::StrCat("has the column ", Quote(columns[column]), ", but no ",
                                            Quote(wanted)));
    }
    if (std::ranges::find(names, name) != names.end()) {
      return FileError(source, absl::StrCat("has two columns ", Quote(columns[column])));
    }
    names.push_back(name);
    plan.values.push_back(column);
    plan.truths.push_back(static_cast<std::size_t>(truth - columns.begin()));
  }
  for (const std::string& column : columns) {
    if (!column.starts_with(kTruthPrefix)) continue;
    const std::string name = column.substr(kTruthPrefix.size());
    if (std::ranges::find(names, name) == names.end()) {
      return FileError(source,
                       absl::StrCat("has the column ", Quote(column), ", but no ",
                                    Quote(absl::StrCat(std::string(kProbabilityPrefix), name))));
    }
  }
  if (names.empty() || names.size() > kMaxLabelCount) {
    return FileError(source, absl::StrCat("has ", names.size(),
                                          " columns whose names begin with prob_, expected 1..",
                                          kMaxLabelCount));
  }
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

std::vector<std::int8_t> LabelsOf(std::span<const double> truths) {
  std::vector<std::int8_t> labels(truths.size());
  std::ranges::transform(truths, labels.begin(), [](double truth) {
    if (std::isnan(truth)) return kMissingTruth;
    return std::isinf(truth) ? kUnreadableTruth : static_cast<std::int8_t>(truth);
  });
  return labels;
}

}  // namespace

absl::StatusOr<LabelTable> ReadLabelTable(const std::string& path, const ColumnOptions& columns) {
  CALIBD_ASSIGN_OR_RETURN(InputFile file, OpenInput(path));
  if (file.format != FileFormat::kCsv && file.format != FileFormat::kJsonLines) {
    return FileError(file.name, "is an array, expected CSV with a header or JSON Lines");
  }
  const TableSchema schema{
      .options = columns,
      .is_header = [](std::span<const std::string_view> /*row*/) { return true; },
      .plan = [&](const TableHead& head) { return PlanLabels(file.name, head.names); },
      .parse_truth = ParseTruth,
      .value = "a probability in [0, 1]"};
  LabelTable table;
  CALIBD_ASSIGN_OR_RETURN(static_cast<Table&>(table), ReadTable(file, schema));
  if (table.row_count == 0) return FileError(file.name, "has no rows");
  table.names = table.columns.value_names;
  table.labels = LabelsOf(table.truths);
  if (!columns.drop_invalid) {
    const auto violations = FindViolations(table.view());
    if (violations.empty()) return table;
    return DescribeFaults(table, absl::InvalidArgumentError(DescribeViolations(violations)));
  }
  DropInvalidRows(
      [&](std::size_t row) { return FindViolations(table.view().rows(row, 1)).empty(); }, table);
  table.labels = LabelsOf(table.truths);
  if (table.row_count == 0) return FileError(file.name, "has no valid rows");
  return table;
}

}  // namespace calibd::cli
