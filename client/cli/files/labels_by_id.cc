#include "client/cli/files/labels_by_id.h"

#include <algorithm>
#include <functional>
#include <string_view>
#include <utility>

#include "absl/strings/str_cat.h"
#include "calibd/convert/text.h"
#include "calibd/core/status_macros.h"
#include "client/cli/files/label_parser.h"
#include "client/cli/files/prediction_file.h"
#include "client/cli/files/text_row.h"

namespace calibd::cli {
namespace {

// What a truth is called in errors and in the names of columns.
struct TruthNoun {
  const char* name;
  const char* with_article;
  const char* plural;
};

absl::StatusOr<ColumnPlan> Plan(const LabelFileOptions& options, const TruthNoun& noun,
                                const std::string& source, const TableHead& head) {
  ColumnOptions stated;
  stated.id = options.columns.id;
  stated.label = options.columns.label;
  CALIBD_ASSIGN_OR_RETURN(
      ColumnPlan plan,
      AssignColumns(stated, {.truth = noun.name, .id = "id", .time = "", .group = ""}, false,
                    source, head.names, head.column_count));
  plan.values.clear();
  if (plan.id.has_value() && !plan.truths.empty()) return plan;
  if (head.column_count != 2) {
    return FileError(source,
                     absl::StrCat("has ", convert::CountText(head.column_count, "column"),
                                  ", expected two: an id and ", noun.with_article,
                                  "; otherwise state both with --id-column and --label-column"));
  }
  if (!plan.id.has_value()) plan.id = plan.truths.empty() ? 0 : 1 - plan.truths[0];
  if (plan.truths.empty()) plan.truths = {1 - *plan.id};
  return plan;
}

// is_header: as in TableSchema. parse: null for numbers.
absl::StatusOr<Table> Read(
    const LabelFileOptions& options, const TruthNoun& noun, InputFile& file,
    const std::function<bool(std::span<const std::string_view>)>& is_header,
    const std::function<absl::StatusOr<double>(std::string_view text)>& parse) {
  if (file.format == FileFormat::kNpy || file.format == FileFormat::kNpz) {
    return FileError(
        file.name,
        absl::StrCat("is a NumPy file, expected CSV or JSON Lines with ids and ", noun.plural));
  }
  const TableSchema schema{
      .options = options.columns,
      .is_header = is_header,
      .plan = [&](const TableHead& head) { return Plan(options, noun, file.name, head); },
      .parse_truth = parse};
  CALIBD_ASSIGN_OR_RETURN(Table table, ReadTable(file, schema));
  if (table.row_count > 0) return table;
  return absl::InvalidArgumentError(file.name + " holds no rows");
}

}  // namespace

absl::StatusOr<LabelsById> ReadLabelFile(const LabelFileOptions& options,
                                         std::span<const std::string> class_names,
                                         std::size_t class_count) {
  CALIBD_ASSIGN_OR_RETURN(InputFile file, OpenInput(options.path));
  return ReadLabelFile(options, class_names, class_count, file);
}

absl::StatusOr<LabelsById> ReadLabelFile(const LabelFileOptions& options,
                                         std::span<const std::string> class_names,
                                         std::size_t class_count, InputFile& file) {
  constexpr TruthNoun kLabel{.name = "label", .with_article = "a label", .plural = "labels"};
  CALIBD_ASSIGN_OR_RETURN(
      const LabelParser parser,
      LabelParser::Create({.base = options.label_base,
                           .class_names = class_names,
                           .class_count = class_count,
                           .positive_class = {},
                           .names_need = "work only if the model was created with --class-names"}));
  // Ids and names of classes are texts, so only the names of both columns make a header.
  const auto is_header = [&](std::span<const std::string_view> row) {
    const auto has = [&](const std::string& stated, const char* usual) {
      return std::ranges::find(row, stated.empty() ? usual : std::string_view(stated)) != row.end();
    };
    const ColumnOptions& columns = options.columns;
    return columns.header.value_or(has(columns.id, "id") && has(columns.label, kLabel.name));
  };
  const auto parse = [&](std::string_view text) -> absl::StatusOr<double> {
    const absl::StatusOr<std::int32_t> label = parser.Parse(text);
    if (!label.ok()) return label.status();
    return *label;
  };
  LabelsById labels;
  CALIBD_ASSIGN_OR_RETURN(static_cast<Table&>(labels),
                          Read(options, kLabel, file, is_header, parse));
  labels.labels = ClassesOf(labels.truths);
  return labels;
}

absl::StatusOr<Table> ReadOutcomes(const LabelFileOptions& options) {
  constexpr TruthNoun kOutcome{
      .name = "outcome", .with_article = "an outcome", .plural = "outcomes"};
  CALIBD_ASSIGN_OR_RETURN(InputFile file, OpenInput(options.path));
  const auto is_header = [&](std::span<const std::string_view> row) {
    return HoldsNames(options.columns,
                      {.truth = kOutcome.name, .id = "id", .time = "", .group = ""}, row);
  };
  return Read(options, kOutcome, file, is_header, nullptr);
}

}  // namespace calibd::cli
