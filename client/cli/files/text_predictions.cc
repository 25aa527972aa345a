#include "client/cli/files/text_predictions.h"

#include <algorithm>
#include <charconv>
#include <limits>
#include <utility>

#include "absl/strings/str_cat.h"
#include "calibd/core/status_macros.h"
#include "client/cli/commands/time_option.h"
#include "client/cli/files/csv_reader.h"
#include "client/cli/files/json_lines_reader.h"

namespace calibd::cli {

const std::vector<std::string> kPredictionNames = {"probabilities", "y_prob", "probs",
                                                   "predictions", "logits"};
const std::vector<std::string> kLabelNames = {"labels", "y_true", "label", "y"};

bool ParseDouble(std::string_view text, double& value) {
  const char* const end = text.data() + text.size();
  const auto [parsed, error] = std::from_chars(text.data(), end, value);
  if (parsed != end) return false;
  if (error != std::errc::result_out_of_range) return error == std::errc();
  value = 0;
  return text.find("e-") != std::string_view::npos || text.find("E-") != std::string_view::npos;
}

namespace {

constexpr double kNaN = std::numeric_limits<double>::quiet_NaN();
constexpr char kDropHint[] = "; --drop-invalid leaves out invalid rows";

std::string Missing(std::string_view cell, std::string_view expected) {
  return absl::StrCat(IsMissing(cell) ? "the value is missing" : Quote(cell) + " is not a number",
                      ", expected ", std::string(expected));
}

absl::Status ColumnCountError(const std::string& source, const TextRow& row, std::size_t expected) {
  const bool empty = row.cells.size() == 1 && row.cells[0].empty();
  return CellError(source, row.line, std::min(row.cells.size(), expected),
                   empty ? absl::StrCat("the line is empty, expected ", expected, " columns")
                         : absl::StrCat("the line has ", row.cells.size(),
                                        row.cells.size() == 1 ? " column" : " columns",
                                        ", expected ", expected, kDropHint));
}

// noun: names the text, "id" or "group value".
absl::Status CheckId(const std::string& source, const TextRow& row, std::size_t column,
                     const char* noun = "id") {
  const std::size_t size = row.cells[column].size();
  if (size >= 1 && size <= kMaxIdBytes) return absl::OkStatus();
  return CellError(
      source, row.line, column + 1,
      absl::StrCat("the ", noun, " is of ", size, " bytes, expected 1 to ", kMaxIdBytes));
}

std::string Text(const absl::Status& status) { return std::string(status.message()); }

// The columns of predictions in a file of this format. names: column names of the header; empty
// without one.
ColumnOptions PredictionColumns(const InputOptions& options, FileFormat format,
                                const std::vector<std::string>& names) {
  ColumnOptions columns = options.columns;
  const auto exists = [&](const char* name) {
    return std::find(names.begin(), names.end(), name) != names.end() &&
           std::find(columns.dropped.begin(), columns.dropped.end(), name) == columns.dropped.end();
  };
  if (format == FileFormat::kJsonLines) {
    if (columns.label.empty() && exists("label")) columns.label = "label";
    if (columns.id.empty() && exists("id")) columns.id = "id";
    if (columns.time.empty() && exists("time")) columns.time = "time";
    if (columns.group.empty() && exists("group")) columns.group = "group";
  }
  // --label-column then names a column of LABELS.
  if (!options.labels.empty()) {
    if (format == FileFormat::kJsonLines && exists("label")) columns.dropped.emplace_back("label");
    columns.label.clear();
  }
  return columns;
}

// Collects predictions row by row.
class PredictionRows {
 public:
  PredictionRows(FileFormat format, const InputOptions& options,
                 std::optional<std::int32_t> positive_class, Input& input)
      : format_(format), options_(options), positive_class_(positive_class), input_(input) {}

  absl::Status Add(const TextRow& row) {
    if (!planned_) {
      planned_ = true;
      bool header = format_ == FileFormat::kJsonLines;
      if (!header) {
        CALIBD_ASSIGN_OR_RETURN(header,
                                IsHeader(options_.columns, source(), row.cells, input_.note));
      }
      if (header) names_.assign(row.cells.begin(), row.cells.end());
      CALIBD_RETURN_IF_ERROR(Plan(row.cells.size()));
      if (header) return absl::OkStatus();
    }
    input_.prediction_places.lines.push_back(row.line);
    if (row.cells.size() != plan_.column_count) {
      if (!options_.drop_invalid) return ColumnCountError(source(), row, plan_.column_count);
      AddInvalid();
      return absl::OkStatus();
    }
    CALIBD_RETURN_IF_ERROR(AddNumbers(row, plan_.classes,
                                      options_.logits ? "a logit" : "a probability in [0, 1]",
                                      input_.values));
    if (plan_.label.has_value()) CALIBD_RETURN_IF_ERROR(AddLabel(row));
    if (plan_.time.has_value()) CALIBD_RETURN_IF_ERROR(AddTime(row));
    if (plan_.id.has_value()) {
      if (!options_.drop_invalid) CALIBD_RETURN_IF_ERROR(CheckId(source(), row, *plan_.id));
      input_.ids.emplace_back(row.cells[*plan_.id]);
    }
    if (plan_.group.has_value()) input_.groups.emplace_back(row.cells[*plan_.group]);
    return AddNumbers(row, plan_.features, "a number", input_.features);
  }

 private:
  [[nodiscard]] const std::string& source() const { return input_.prediction_places.path; }

  absl::Status Plan(std::size_t column_count) {
    CALIBD_ASSIGN_OR_RETURN(plan_, PlanColumns(PredictionColumns(options_, format_, names_),
                                               {.class_names = options_.class_names,
                                                .label_base = options_.label_base,
                                                .positive_class = positive_class_.has_value(),
                                                .labels_last = options_.labels_last_column},
                                               source(), names_, column_count));
    input_.class_columns = plan_.classes;
    input_.class_names = plan_.class_names.empty() ? options_.class_names : plan_.class_names;
    if (!plan_.note.empty()) input_.note = plan_.note;
    if (!plan_.label.has_value()) return absl::OkStatus();
    CALIBD_ASSIGN_OR_RETURN(
        parser_, LabelParser::Create({.base = options_.label_base,
                                      .class_names = input_.class_names,
                                      .class_count = positive_class_ ? 2 : plan_.classes.size(),
                                      .positive_class = positive_class_,
                                      .names_need = format_ == FileFormat::kCsv
                                                        ? "need --class-names or a header"
                                                        : "need --class-names"}));
    return absl::OkStatus();
  }

  // The place of a cell in the file and what is wrong with it.
  absl::Status Fault(const TextRow& row, std::size_t column, const std::string& what,
                     const std::string& hint = kDropHint) {
    const bool maybe_header =
        names_.empty() && row.line == 1 && !options_.columns.header.has_value();
    return absl::InvalidArgumentError(absl::StrCat(
        source(), " line ", row.line, ", ",
        format_ == FileFormat::kJsonLines ? absl::StrCat("key ", Quote(names_[column]))
        : names_.empty()                  ? absl::StrCat("column ", column + 1)
                         : absl::StrCat("column ", column + 1, " (", Quote(names_[column]), ")"),
        ": ", what,
        maybe_header ? "; if the first line holds names, say --header" : std::string(hint)));
  }

  // What to do about a text in a column of probabilities. One in the first row hints at a column of
  // another kind.
  std::string TextHint(std::size_t column) const {
    if (input_.prediction_places.lines.size() > 1) return kDropHint;
    const std::string stated =
        names_.empty() ? absl::StrCat(column + 1) : OptionValue(names_[column]);
    const bool labelled = plan_.label.has_value() || !options_.labels.empty();
    return absl::StrCat("; ",
                        labelled ? ""
                                 : absl::StrCat("if this column holds the labels, add "
                                                "--label-column ",
                                                stated, "; "),
                        "--drop-column ", stated, " leaves the column out");
  }

  // Adds a row that the checks of the values will refuse.
  void AddInvalid() {
    input_.values.insert(input_.values.end(), plan_.classes.size(), kNaN);
    if (plan_.label.has_value()) input_.labels.push_back(-1);
    if (plan_.time.has_value()) input_.times.emplace_back();
    if (plan_.id.has_value()) input_.ids.emplace_back();
    if (plan_.group.has_value()) input_.groups.emplace_back();
    input_.features.insert(input_.features.end(), plan_.features.size(), kNaN);
  }

  // expected: what a cell of these columns holds.
  absl::Status AddNumbers(const TextRow& row, std::span<const std::size_t> columns,
                          const char* expected, std::vector<double>& values) {
    for (const std::size_t column : columns) {
      double value = 0;
      if (!ParseDouble(row.cells[column], value)) {
        if (!options_.drop_invalid) {
          return Fault(row, column, Missing(row.cells[column], expected),
                       IsMissing(row.cells[column]) ? kDropHint : TextHint(column));
        }
        value = kNaN;
      }
      values.push_back(value);
    }
    return absl::OkStatus();
  }

  absl::Status AddLabel(const TextRow& row) {
    const auto label = parser_->Parse(row.cells[*plan_.label]);
    if (!label.ok() && !options_.drop_invalid) {
      return Fault(row, *plan_.label, Text(label.status()));
    }
    input_.labels.push_back(label.value_or(-1));
    return absl::OkStatus();
  }

  absl::Status AddTime(const TextRow& row) {
    const auto time = ParseTimestamp(row.cells[*plan_.time]);
    if (!time.ok()) {
      if (!options_.drop_invalid) return Fault(row, *plan_.time, Text(time.status()));
      input_.values.back() = kNaN;
    }
    input_.times.push_back(time.value_or(google::protobuf::Timestamp()));
    return absl::OkStatus();
  }

  const FileFormat format_;
  const InputOptions& options_;
  const std::optional<std::int32_t> positive_class_;
  Input& input_;
  bool planned_ = false;
  // Column names of the header; empty without one.
  std::vector<std::string> names_;
  ColumnPlan plan_;
  std::optional<LabelParser> parser_;
};

}  // namespace

absl::Status ReadRows(std::istream& input, FileFormat format, const ColumnOptions& columns,
                      const std::string& source, OnRow on_row) {
  if (format == FileFormat::kJsonLines) {
    const std::vector<std::string> stated = {columns.predictions};
    return ReadJsonLines(input, source, columns.predictions.empty() ? kPredictionNames : stated,
                         on_row);
  }
  CALIBD_ASSIGN_OR_RETURN(const char delimiter, ParseDelimiter(columns.delimiter));
  return ReadCsv(input, source, delimiter, on_row);
}

absl::Status ReadTextPredictions(std::istream& stream, FileFormat format,
                                 const InputOptions& options,
                                 std::optional<std::int32_t> positive_class, Input& input) {
  PredictionRows rows(format, options, positive_class, input);
  const std::string& source = input.prediction_places.path;
  CALIBD_RETURN_IF_ERROR(ReadRows(stream, format, options.columns, source,
                                  [&](const TextRow& row) { return rows.Add(row); }));
  if (!input.prediction_places.lines.empty()) return absl::OkStatus();
  return absl::InvalidArgumentError(source + " holds no rows");
}

absl::Status ReadTextLabels(std::istream& stream, FileFormat format, const InputOptions& options,
                            const LabelParser& parser, std::size_t row_count, Input& input) {
  const std::string& source = input.label_places.path;
  const std::string& stated = options.columns.label;
  std::vector<std::string> names;
  std::size_t column = 0;
  std::size_t column_count = 0;
  // The fault of the first label, which is the header if there is one row too many.
  absl::Status first;
  const auto add = [&](const TextRow& row) -> absl::Status {
    if (column_count == 0) {
      column_count = row.cells.size();
      const bool header = format == FileFormat::kJsonLines ||
                          options.columns.header.value_or(
                              (column_count > 1 && row.cells[0].empty()) ||
                              (!stated.empty() && std::find(row.cells.begin(), row.cells.end(),
                                                            stated) != row.cells.end()));
      if (header) names.assign(row.cells.begin(), row.cells.end());
      const bool index = header && column_count == 2 && row.cells[0].empty();
      if (!stated.empty()) {
        CALIBD_ASSIGN_OR_RETURN(column,
                                FindColumn(source, "--label-column", stated, names, column_count));
      } else if (index) {
        column = 1;
      } else if (column_count != 1) {
        return absl::InvalidArgumentError(
            absl::StrCat(source, " has ", column_count,
                         " columns, expected one label a line; state the column with "
                         "--label-column"));
      }
      if (header) return absl::OkStatus();
    }
    if (row.cells.size() != column_count) return ColumnCountError(source, row, column_count);
    const auto label = parser.Parse(row.cells[column]);
    if (!label.ok() && !options.drop_invalid) {
      absl::Status fault =
          CellError(source, row.line, column + 1, Text(label.status()) + kDropHint);
      if (!input.labels.empty() || options.columns.header.has_value()) return fault;
      first = std::move(fault);
    }
    input.labels.push_back(label.value_or(-1));
    input.label_places.lines.push_back(row.line);
    return absl::OkStatus();
  };
  CALIBD_RETURN_IF_ERROR(ReadRows(stream, format, options.columns, source, add));
  const bool header = names.empty() && !options.columns.header.has_value() &&
                      input.labels.size() == row_count + 1 && input.labels[0] == -1;
  if (!header) return first;
  input.labels.erase(input.labels.begin());
  input.label_places.lines.erase(input.label_places.lines.begin());
  return absl::OkStatus();
}

absl::StatusOr<std::vector<std::string>> ReadTexts(std::istream& stream, const char* noun,
                                                   const ColumnOptions& columns,
                                                   RowPlaces& places) {
  std::vector<std::string> texts;
  bool header = columns.header.value_or(false);
  const auto add = [&](const TextRow& row) -> absl::Status {
    if (std::exchange(header, false)) return absl::OkStatus();
    if (row.cells.size() != 1) {
      return CellError(places.path, row.line, 2,
                       absl::StrCat("the line has more text, expected one ", noun,
                                    " (in quotes if it contains the delimiter)"));
    }
    CALIBD_RETURN_IF_ERROR(CheckId(places.path, row, 0, noun));
    texts.emplace_back(row.cells[0]);
    places.lines.push_back(row.line);
    return absl::OkStatus();
  };
  CALIBD_RETURN_IF_ERROR(ReadRows(stream, FileFormat::kCsv, columns, places.path, add));
  return texts;
}

absl::Status ReadTextLabelsById(std::istream& stream, FileFormat format,
                                const LabelFileOptions& options, const LabelParser& parser,
                                LabelsById& file) {
  const std::string& source = file.places.path;
  ColumnPlan plan;
  const auto add = [&](const TextRow& row) -> absl::Status {
    if (plan.column_count == 0) {
      std::vector<std::string> names;
      const auto has = [&](const std::string& stated, const char* otherwise) {
        const std::string_view name = stated.empty() ? otherwise : std::string_view(stated);
        return std::find(row.cells.begin(), row.cells.end(), name) != row.cells.end();
      };
      if (format == FileFormat::kJsonLines ||
          options.columns.header.value_or(has(options.columns.id, "id") &&
                                          has(options.columns.label, "label"))) {
        names.assign(row.cells.begin(), row.cells.end());
      }
      CALIBD_ASSIGN_OR_RETURN(plan,
                              PlanLabelColumns(options.columns, source, names, row.cells.size()));
      if (!names.empty()) return absl::OkStatus();
    }
    if (row.cells.size() != plan.column_count) {
      return ColumnCountError(source, row, plan.column_count);
    }
    const auto label = parser.Parse(row.cells[*plan.label]);
    if (!options.drop_invalid) {
      CALIBD_RETURN_IF_ERROR(CheckId(source, row, *plan.id));
      if (!label.ok()) {
        const bool maybe_header =
            format == FileFormat::kCsv && row.line == 1 && !options.columns.header.has_value();
        return CellError(
            source, row.line, *plan.label + 1,
            Text(label.status()) +
                (maybe_header ? "; if the first line holds names, say --header" : kDropHint));
      }
    }
    file.ids.emplace_back(row.cells[*plan.id]);
    file.labels.push_back(label.value_or(-1));
    file.places.lines.push_back(row.line);
    return absl::OkStatus();
  };
  CALIBD_RETURN_IF_ERROR(ReadRows(stream, format, options.columns, source, add));
  if (!file.ids.empty()) return absl::OkStatus();
  return absl::InvalidArgumentError(source + " holds no rows");
}

}  // namespace calibd::cli
