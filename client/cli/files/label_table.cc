#include "client/cli/files/label_table.h"

#include <algorithm>
#include <optional>
#include <span>
#include <string_view>
#include <utility>

#include "absl/strings/ascii.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "calibd/core/status_macros.h"
#include "client/cli/files/file_format.h"
#include "client/cli/files/label_parser.h"
#include "client/cli/files/text_predictions.h"
#include "client/cli/files/text_row.h"

namespace calibd::cli {
namespace {

constexpr std::string_view kProbabilityPrefix = "prob_";
constexpr std::string_view kTruthPrefix = "label_";

// The columns of the labels, counted from 0.
struct LabelPlan {
  std::size_t column_count = 0;
  std::vector<std::size_t> probabilities;
  std::vector<std::size_t> truths;
};

absl::StatusOr<LabelPlan> PlanLabels(const std::string& source,
                                     std::span<const std::string_view> columns,
                                     std::vector<std::string>& names) {
  LabelPlan plan{.column_count = columns.size(), .probabilities = {}, .truths = {}};
  for (std::size_t column = 0; column < columns.size(); ++column) {
    if (!columns[column].starts_with(kProbabilityPrefix)) continue;
    const std::string_view name = columns[column].substr(kProbabilityPrefix.size());
    const std::string wanted = absl::StrCat(std::string(kTruthPrefix), std::string(name));
    const auto truth = std::ranges::find(columns, wanted);
    if (truth == columns.end()) {
      return FileError(source, absl::StrCat("has the column ", Quote(columns[column]), ", but no ",
                                            Quote(wanted)));
    }
    if (std::ranges::find(names, name) != names.end()) {
      return FileError(source, absl::StrCat("has two columns ", Quote(columns[column])));
    }
    names.emplace_back(name);
    plan.probabilities.push_back(column);
    plan.truths.push_back(static_cast<std::size_t>(truth - columns.begin()));
  }
  for (const std::string_view column : columns) {
    if (!column.starts_with(kTruthPrefix)) continue;
    const std::string_view name = column.substr(kTruthPrefix.size());
    if (std::ranges::find(names, name) == names.end()) {
      return FileError(
          source,
          absl::StrCat("has the column ", Quote(column), ", but no ",
                       Quote(absl::StrCat(std::string(kProbabilityPrefix), std::string(name)))));
    }
  }
  if (names.empty() || names.size() > kMaxLabelCount) {
    return FileError(source, absl::StrCat("has ", names.size(),
                                          " columns whose names begin with prob_, expected 1..",
                                          kMaxLabelCount));
  }
  return plan;
}

std::optional<std::int8_t> ParseTruth(std::string_view text) {
  const std::string lower = absl::AsciiStrToLower(std::string(text));
  if (lower.empty()) return kMissingTruth;
  if (lower == "1" || lower == "true" || lower == "1.0") return 1;
  if (lower == "0" || lower == "false" || lower == "0.0") return 0;
  return std::nullopt;
}

absl::Status AddRow(const std::string& source, const LabelPlan& plan, const TextRow& row,
                    LabelTable& table) {
  for (std::size_t k = 0; k < plan.truths.size(); ++k) {
    const std::size_t column = plan.probabilities[k];
    double probability = 0;
    // Written so that NaN fails the check too.
    if (!ParseDouble(row.cells[column], probability) || !(probability >= 0 && probability <= 1)) {
      return CellError(
          source, row.line, column + 1,
          absl::StrCat("is ", Quote(row.cells[column]), ", expected a number in [0, 1]"));
    }
    const std::optional<std::int8_t> truth = ParseTruth(row.cells[plan.truths[k]]);
    if (!truth.has_value()) {
      return CellError(source, row.line, plan.truths[k] + 1,
                       absl::StrCat("is ", Quote(row.cells[plan.truths[k]]),
                                    ", expected 0, 1, or nothing for a missing truth"));
    }
    table.probabilities.push_back(probability);
    table.truths.push_back(*truth);
  }
  return absl::OkStatus();
}

}  // namespace

absl::StatusOr<LabelTable> ReadLabelTable(const std::string& path, const ColumnOptions& columns) {
  CALIBD_ASSIGN_OR_RETURN(InputFile file, OpenInput(path));
  if (file.format != FileFormat::kCsv && file.format != FileFormat::kJsonLines) {
    return FileError(file.name, "is an array, expected CSV with a header or JSON Lines");
  }
  LabelTable table;
  std::optional<LabelPlan> plan;
  CALIBD_RETURN_IF_ERROR(ReadRows(
      file.stream, file.format, columns, file.name, [&](const TextRow& row) -> absl::Status {
        if (!plan.has_value()) {
          CALIBD_ASSIGN_OR_RETURN(plan, PlanLabels(file.name, row.cells, table.names));
          return absl::OkStatus();
        }
        if (row.cells.size() != plan->column_count) {
          return CellError(file.name, row.line, std::min(row.cells.size(), plan->column_count),
                           absl::StrCat("the line has ", row.cells.size(), " columns, expected ",
                                        plan->column_count));
        }
        return AddRow(file.name, *plan, row, table);
      }));
  if (table.truths.empty()) return FileError(file.name, "has no rows");
  return table;
}

}  // namespace calibd::cli
