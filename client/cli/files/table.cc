#include "client/cli/files/table.h"

#include <algorithm>
#include <array>
#include <charconv>
#include <cmath>
#include <limits>
#include <utility>

#include "absl/strings/str_cat.h"
#include "calibd/convert/text.h"
#include "calibd/core/status_macros.h"
#include "client/cli/commands/command.h"
#include "client/cli/commands/time_option.h"
#include "client/cli/files/csv_reader.h"
#include "client/cli/files/json_lines_reader.h"
#include "client/cli/files/label_parser.h"
#include "client/cli/files/npy_reader.h"
#include "client/cli/files/npz_reader.h"
#include "client/cli/files/text_row.h"

namespace calibd::cli {

const std::vector<std::string> kPredictionNames = {"probabilities", "y_prob", "probs",
                                                   "predictions", "logits"};
const std::vector<std::string> kLabelNames = {"labels", "y_true", "label", "y"};

namespace {

constexpr double kNaN = std::numeric_limits<double>::quiet_NaN();
constexpr double kUnreadable = std::numeric_limits<double>::infinity();
constexpr char kDropHint[] = "; --drop-invalid leaves out invalid rows";

// Rows that are left out by what their label is would change what is measured. One without a label
// says nothing.
std::string TruthHint(std::string_view text) { return IsMissing(text) ? kDropHint : ""; }
constexpr char kHeaderHint[] = "; if the first line holds names, say --header";
constexpr char kOneHotHint[] =
    "; if each row is 0 except for a 1 at its class (one-hot), store argmax(axis=1) instead";
constexpr std::string_view kNumber = "a number";
constexpr std::size_t kMaxIdBytes = 128;

std::string Text(const absl::Status& status) { return std::string(status.message()); }

// What to do about a text in place of a number; empty if it has no usual cause.
std::string HintAtText(std::string_view cell) {
  constexpr struct {
    char delimiter;
    const char* name;
    const char* option;
  } kDelimiters[] = {{';', "a semicolon", "';'"}, {'\t', "a tab", "tab"}, {'|', "a |", "'|'"}};
  for (const auto& [delimiter, name, option] : kDelimiters) {
    if (cell.find(delimiter) == std::string_view::npos) continue;
    return absl::StrCat("; if ", name, " separates the columns, say --delimiter ", option);
  }
  return HintAtNotation(cell);
}

// Reads a cell that has to be a number. Errors: InvalidArgument saying what is wrong.
absl::StatusOr<double> ParseNumber(std::string_view cell, std::string_view expected) {
  double value = 0;
  if (ParseDouble(cell, value) && !std::isnan(value)) return value;
  if (IsMissing(cell) || std::isnan(value)) {
    return absl::InvalidArgumentError(
        absl::StrCat("the value is missing, expected ", std::string(expected)));
  }
  return absl::InvalidArgumentError(
      absl::StrCat(Quote(cell), " is not a number",
                   expected == kNumber ? "" : absl::StrCat(", expected ", std::string(expected)),
                   HintAtText(cell)));
}

// noun: names the text, "id" or "group value".
absl::Status CheckId(const std::string& source, const TextRow& row, std::size_t column,
                     const char* noun) {
  const std::size_t size = row.cells[column].size();
  if (size >= 1 && size <= kMaxIdBytes) return absl::OkStatus();
  return CellError(
      source, row.line, column + 1,
      absl::StrCat("the ", noun, " is of ", size, " bytes, expected 1 to ", kMaxIdBytes));
}

absl::Status ReadRows(InputFile& file, const ColumnOptions& options, OnRow on_row) {
  if (file.format == FileFormat::kJsonLines) {
    const std::vector<std::string> stated = {options.predictions};
    return ReadJsonLines(*file.stream, file.name,
                         options.predictions.empty() ? kPredictionNames : stated, on_row);
  }
  std::optional<char> delimiter;
  if (!options.delimiter.empty()) {
    CALIBD_ASSIGN_OR_RETURN(delimiter, ParseDelimiter(options.delimiter));
  }
  return ReadCsv(*file.stream, file.name, delimiter, on_row);
}

// Collects the rows of CSV or JSON Lines.
class TextRows {
 public:
  TextRows(const TableSchema& schema, Table& table) : schema_(schema), table_(table) {}

  absl::Status Add(const TextRow& row) {
    if (!planned_) {
      planned_ = true;
      bool header = table_.format == FileFormat::kJsonLines;
      if (!header) {
        CALIBD_ASSIGN_OR_RETURN(header, schema_.is_header(row.cells));
      }
      std::vector<std::string> names;
      if (header) names.assign(row.cells.begin(), row.cells.end());
      CALIBD_ASSIGN_OR_RETURN(table_.columns,
                              schema_.plan({names, row.cells.size(), false, row.predictions}));
      table_.columns.column_count = row.cells.size();
      table_.columns.names = std::move(names);
      table_.width = plan().values.size();
      table_.truth_width = plan().truths.size();
      if (header) return absl::OkStatus();
    }
    table_.places.lines.push_back(row.line);
    ++table_.row_count;
    if (row.cells.size() != plan().column_count) {
      if (!drop()) return ColumnCountError(row);
      AddUnreadable();
      return absl::OkStatus();
    }
    CALIBD_RETURN_IF_ERROR(AddNumbers(row, plan().values, schema_.value, table_.values));
    for (const std::size_t column : plan().truths) CALIBD_RETURN_IF_ERROR(AddTruth(row, column));
    if (plan().time.has_value()) CALIBD_RETURN_IF_ERROR(AddTime(row));
    if (plan().id.has_value()) {
      if (!drop()) CALIBD_RETURN_IF_ERROR(CheckId(source(), row, *plan().id, "id"));
      table_.ids.emplace_back(row.cells[*plan().id]);
    }
    if (plan().group.has_value()) table_.groups.emplace_back(row.cells[*plan().group]);
    return AddNumbers(row, plan().features, kNumber, table_.features);
  }

 private:
  [[nodiscard]] const std::string& source() const { return table_.places.path; }
  [[nodiscard]] const ColumnPlan& plan() const { return table_.columns; }
  [[nodiscard]] bool drop() const { return schema_.options.drop_invalid; }

  [[nodiscard]] absl::Status ColumnCountError(const TextRow& row) const {
    const std::size_t expected = plan().column_count;
    const bool empty = row.cells.size() == 1 && row.cells[0].empty();
    return CellError(
        source(), row.line, std::min(row.cells.size(), expected),
        empty ? absl::StrCat("the line is empty, expected ", convert::CountText(expected, "column"))
              : absl::StrCat("the line has ", convert::CountText(row.cells.size(), "column"),
                             ", expected ", expected, kDropHint));
  }

  // The place of a cell of the newest row, and what is wrong with it.
  [[nodiscard]] absl::Status Fault(std::size_t column, const absl::Status& fault,
                                   const std::string& hint = kDropHint) const {
    const bool maybe_header = plan().names.empty() && table_.row_count == 1 &&
                              table_.places.lines[0] == 1 && !schema_.options.header.has_value();
    return absl::InvalidArgumentError(absl::StrCat(table_.PlaceOf(table_.row_count - 1, column),
                                                   ": ", Text(fault),
                                                   maybe_header ? kHeaderHint : hint));
  }

  // What to do about a text in a column of values. One in the first row hints at a column of
  // another kind.
  [[nodiscard]] std::string TextHint(std::size_t column, std::string_view cell) const {
    if (!HintAtText(cell).empty()) return "";
    if (table_.row_count > 1 || schema_.truths.empty()) return kDropHint;
    const std::string stated =
        plan().names.empty() ? absl::StrCat(column + 1) : OptionValue(plan().names[column]);
    return absl::StrCat("; ",
                        plan().truths.empty()
                            ? absl::StrCat("if this column holds the ", std::string(schema_.truths),
                                           ", add --label-column ", stated, "; ")
                            : "",
                        plan().values.size() > 1
                            ? absl::StrCat("--drop-column ", stated, " leaves the column out")
                            : "a column of values is needed: --predictions-key states it");
  }

  // Adds a row that the checks of the values will refuse.
  void AddUnreadable() {
    table_.values.insert(table_.values.end(), plan().values.size(), kNaN);
    table_.truths.insert(table_.truths.end(), plan().truths.size(), kUnreadable);
    if (plan().time.has_value()) table_.times.emplace_back();
    if (plan().id.has_value()) table_.ids.emplace_back();
    if (plan().group.has_value()) table_.groups.emplace_back();
    table_.features.insert(table_.features.end(), plan().features.size(), kNaN);
  }

  absl::Status AddNumbers(const TextRow& row, std::span<const std::size_t> columns,
                          std::string_view expected, std::vector<double>& numbers) {
    for (const std::size_t column : columns) {
      double value = 0;
      if (!ParseDouble(row.cells[column], value) || std::isnan(value)) {
        // A notation such as 95% is that of the whole column: without it, few rows or none remain.
        if (!drop() || !HintAtNotation(row.cells[column]).empty()) {
          const bool text = !IsMissing(row.cells[column]) && !std::isnan(value);
          return Fault(column, ParseNumber(row.cells[column], expected).status(),
                       text ? TextHint(column, row.cells[column]) : kDropHint);
        }
        value = kNaN;
      }
      numbers.push_back(value);
    }
    return absl::OkStatus();
  }

  absl::Status AddTruth(const TextRow& row, std::size_t column) {
    const std::string_view cell = row.cells[column];
    const auto truth = schema_.parse_truth ? schema_.parse_truth(cell) : ParseNumber(cell, kNumber);
    if (!truth.ok() && !drop()) return Fault(column, truth.status(), TruthHint(cell));
    table_.truths.push_back(truth.value_or(kUnreadable));
    return absl::OkStatus();
  }

  absl::Status AddTime(const TextRow& row) {
    const auto time = ParseTimestamp(row.cells[*plan().time]);
    if (!time.ok()) {
      if (!drop()) return Fault(*plan().time, time.status());
      table_.values.back() = kNaN;
    }
    table_.times.push_back(time.value_or(google::protobuf::Timestamp()));
    return absl::OkStatus();
  }

  const TableSchema& schema_;
  Table& table_;
  bool planned_ = false;
};

// Returns the only array of the file, or the one that is stated or has one of the names; unset
// without such an array.
std::optional<std::string> FindArray(const NpzFile& file, const ArrayNames& names, bool only) {
  const std::vector<std::string>& existing = file.names();
  const auto exists = [&](const std::string& name) {
    return std::ranges::find(existing, name) != existing.end();
  };
  if (!names.stated.empty()) {
    return exists(names.stated) ? std::optional(names.stated) : std::nullopt;
  }
  if (const auto found = std::ranges::find_if(names.names, exists); found != names.names.end()) {
    return *found;
  }
  return only && existing.size() == 1 ? std::optional(existing[0]) : std::nullopt;
}

absl::StatusOr<NpyArray> ReadNamedArray(const InputFile& open, const NpzFile& file,
                                        const ArrayNames& names) {
  const std::optional<std::string> name = FindArray(file, names, true);
  if (name.has_value()) return file.Read(*name);
  const std::vector<std::string> stated = {names.stated};
  return absl::InvalidArgumentError(absl::StrCat(
      open.name, " has the arrays ", ListNames(file.names()), ", but none named ",
      ListNames(names.stated.empty() ? names.names : std::span<const std::string>(stated)),
      "; state one with ", names.option));
}

// The text of an element, as the parsers of truths expect it.
std::string ElementText(const NpyArray& array, std::size_t row, std::size_t column) {
  if (array.values.empty()) return array.texts[row];
  const double value = array.values[row * array.column_count + column];
  if (array.truth_values) return value != 0 ? "True" : "False";
  std::array<char, 32> digits{};
  return {digits.data(), std::to_chars(digits.data(), digits.data() + digits.size(), value).ptr};
}

// Adds the truths in these columns of an array.
absl::Status AddTruths(const NpyArray& array, std::span<const std::size_t> columns,
                       const TableSchema& schema, const RowPlaces& places, Table& table) {
  table.truth_width = columns.size();
  for (std::size_t row = 0; row < array.row_count; ++row) {
    for (const std::size_t column : columns) {
      if (!schema.parse_truth && !array.values.empty()) {
        table.truths.push_back(array.values[row * array.column_count + column]);
        continue;
      }
      const std::string text = ElementText(array, row, column);
      const auto truth = schema.parse_truth ? schema.parse_truth(text) : ParseNumber(text, kNumber);
      if (!truth.ok() && !schema.options.drop_invalid) {
        return absl::InvalidArgumentError(
            absl::StrCat(places.Of(row), ": ", Text(truth.status()), TruthHint(text)));
      }
      table.truths.push_back(truth.value_or(kUnreadable));
    }
  }
  return absl::OkStatus();
}

void AddColumns(const NpyArray& array, std::span<const std::size_t> columns,
                std::vector<double>& numbers) {
  numbers.reserve(array.row_count * columns.size());
  for (std::size_t row = 0; row < array.row_count; ++row) {
    for (const std::size_t column : columns) {
      numbers.push_back(array.values[row * array.column_count + column]);
    }
  }
}

// Reads an array, and the truths of an NPZ file that has them.
absl::Status ReadArrays(InputFile& file, const TableSchema& schema, Table& table) {
  const ColumnOptions& options = schema.options;
  if (!options.id.empty() || !options.time.empty() || !options.group.empty()) {
    return UsageFault(absl::StrCat(file.name,
                                   " is a NumPy file: --id-column, --time-column and "
                                   "--group-column are for CSV and JSON Lines"));
  }
  NpyArray array;
  std::optional<NpyArray> truths;
  if (file.format == FileFormat::kNpy) {
    CALIBD_ASSIGN_OR_RETURN(array, ReadNpy(*file.stream, file.name));
  } else {
    CALIBD_ASSIGN_OR_RETURN(const NpzFile open, NpzFile::Open(file.path));
    CALIBD_ASSIGN_OR_RETURN(array, ReadNamedArray(file, open, schema.array));
    const ArrayNames names{
        .option = "--label-column", .stated = options.label, .names = kLabelNames};
    if (schema.truth_array &&
        (FindArray(open, names, false).has_value() || !options.label.empty())) {
      CALIBD_ASSIGN_OR_RETURN(truths, ReadNamedArray(file, open, names));
    }
  }
  CALIBD_ASSIGN_OR_RETURN(table.columns, schema.plan({{}, array.column_count, truths.has_value()}));
  table.columns.column_count = array.column_count;
  table.width = table.columns.values.size();
  table.row_count = array.row_count;
  if (table.width > 0 && (array.values.empty() || array.truth_values)) {
    return FileError(
        file.name,
        absl::StrCat("holds ", array.truth_values ? "truth values" : "texts", ", expected numbers",
                     schema.truths.empty() ? "" : "; PREDICTIONS comes before LABELS"));
  }
  CALIBD_RETURN_IF_ERROR(AddTruths(array, table.columns.truths, schema, table.places, table));
  if (truths.has_value()) {
    if (truths->column_count != 1) {
      return FileError(
          file.name,
          absl::StrCat("shape (", truths->row_count, ", ", truths->column_count, ") of the ",
                       std::string(schema.truths), ", expected one in each row, (n, ) or (n, 1)",
                       schema.parse_truth ? kOneHotHint : ""));
    }
    table.truth_places.path = file.name;
    constexpr std::size_t kOnly[] = {0};
    CALIBD_RETURN_IF_ERROR(AddTruths(*truths, kOnly, schema, table.truth_places, table));
  }
  AddColumns(array, table.columns.features, table.features);
  if (table.width == array.column_count) {
    table.values = std::move(array.values);
  } else {
    AddColumns(array, table.columns.values, table.values);
  }
  return absl::OkStatus();
}

// Whether the first line of a file of truths is a header, as far as one sees without the others.
bool NamesTruths(const ColumnOptions& options, std::span<const std::string_view> row) {
  return options.header.value_or(
      (row.size() > 1 && row[0].empty()) ||
      (!options.label.empty() && std::ranges::find(row, options.label) != row.end()));
}

absl::StatusOr<ColumnPlan> PlanTruthFile(const InputFile& file, const ColumnOptions& options,
                                         const char* noun, std::span<const std::string> names,
                                         std::size_t column_count) {
  ColumnPlan plan;
  const bool index = column_count == 2 && !names.empty() && names[0].empty();
  if (!options.label.empty() && file.format != FileFormat::kNpz) {
    CALIBD_ASSIGN_OR_RETURN(
        const std::size_t column,
        FindColumn(file.name, "--label-column", options.label, names, column_count));
    plan.truths = {column};
  } else if (index) {
    plan.truths = {1};
  } else if (column_count == 1) {
    plan.truths = {0};
  } else {
    return FileError(file.name, absl::StrCat("has ", column_count, " columns, expected one ", noun,
                                             " in each row; state the column with --label-column",
                                             std::string_view(noun) == "label" ? kOneHotHint : ""));
  }
  return plan;
}

// The options of a file with one column, in whose texts a semicolon or a tab is no delimiter.
ColumnOptions OneColumn(ColumnOptions options) {
  if (options.delimiter.empty()) options.delimiter = ",";
  return options;
}

// Reads one text for each row of `table` from CSV with one column; nothing if the path is empty.
// noun: names a text in errors, such as "id".
absl::Status ReadTextFile(const std::string& path, const char* noun, const ColumnOptions& options,
                          const Table& table, std::vector<std::string>& texts, RowPlaces& places) {
  if (path.empty()) return absl::OkStatus();
  CALIBD_ASSIGN_OR_RETURN(InputFile file, OpenInput(path));
  file.format = FileFormat::kCsv;
  places.path = file.name;
  places.csv = true;
  bool header = options.header.value_or(false);
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
  CALIBD_RETURN_IF_ERROR(ReadRows(file, OneColumn(options), add));
  return CheckCount(places, noun, texts.size(), table);
}

}  // namespace

absl::StatusOr<Table> ReadTable(InputFile& file, const TableSchema& schema) {
  Table table;
  table.format = file.format;
  table.places.path = file.name;
  table.places.csv = file.format == FileFormat::kCsv;
  if (file.format == FileFormat::kNpy || file.format == FileFormat::kNpz) {
    CALIBD_RETURN_IF_ERROR(ReadArrays(file, schema, table));
    return table;
  }
  TextRows rows(schema, table);
  CALIBD_RETURN_IF_ERROR(
      ReadRows(file, schema.options, [&](const TextRow& row) { return rows.Add(row); }));
  return table;
}

absl::Status ReadTruthFile(
    InputFile& file, const ColumnOptions& stated, const char* noun,
    const std::function<absl::StatusOr<double>(std::string_view text)>& parse_truth, Table& table) {
  const ColumnOptions options = OneColumn(stated);
  // The fault of the first truth, which is the header if there is one row too many.
  absl::Status first;
  bool header = file.format != FileFormat::kCsv;
  std::size_t count = 0;
  const TableSchema schema{
      .options = options,
      .is_header =
          [&](std::span<const std::string_view> row) { return header = NamesTruths(options, row); },
      .plan =
          [&](const TableHead& head) {
            return PlanTruthFile(file, options, noun, head.names, head.column_count);
          },
      .parse_truth = [&](std::string_view text) -> absl::StatusOr<double> {
        auto truth = parse_truth ? parse_truth(text) : ParseNumber(text, kNumber);
        if (++count > 1 || truth.ok() || header || options.header.has_value()) return truth;
        first = truth.status();
        return kUnreadable;
      },
      .array = {.option = "--label-column", .stated = options.label, .names = kLabelNames}};
  CALIBD_ASSIGN_OR_RETURN(Table read, ReadTable(file, schema));
  if (!first.ok() && read.row_count == table.row_count + 1) {
    read.truths.erase(read.truths.begin());
    read.places.lines.erase(read.places.lines.begin());
  } else if (!first.ok() && !options.drop_invalid) {
    return absl::InvalidArgumentError(
        absl::StrCat(read.PlaceOf(0, read.columns.truths[0]), ": ", Text(first)));
  }
  table.truths = std::move(read.truths);
  table.truth_width = 1;
  table.truth_places = std::move(read.places);
  return CheckCount(table.truth_places, noun, table.truths.size(), table);
}

absl::StatusOr<Table> ReadNumbers(const std::string& path, const ColumnOptions& options) {
  CALIBD_ASSIGN_OR_RETURN(InputFile file, OpenInput(path));
  // The other options are about the file of the predictions.
  ColumnOptions own;
  own.delimiter = options.delimiter;
  own.header = options.header;
  own.drop_invalid = options.drop_invalid;
  const TableSchema schema{
      .options = own,
      .is_header = [&](std::span<const std::string_view> row) { return HoldsNames(own, {}, row); },
      .plan =
          [&](const TableHead& head) {
            return AssignColumns(own, {}, false, file.name, head.names, head.column_count);
          }};
  return ReadTable(file, schema);
}

absl::Status ReadOtherFiles(const InputOptions& options, Table& table) {
  CALIBD_RETURN_IF_ERROR(
      ReadTextFile(options.ids, "id", options.columns, table, table.ids, table.id_places));
  CALIBD_RETURN_IF_ERROR(ReadTextFile(options.groups, "group value", options.columns, table,
                                      table.groups, table.group_places));
  if (options.features.empty()) return absl::OkStatus();
  CALIBD_ASSIGN_OR_RETURN(Table read, ReadNumbers(options.features, options.columns));
  if (read.row_count != table.row_count) {
    return FileError(options.features,
                     absl::StrCat("has ", convert::CountText(read.row_count, "row"),
                                  ", expected one for each of ",
                                  convert::CountText(table.row_count, "prediction")));
  }
  table.features = std::move(read.values);
  return absl::OkStatus();
}

}  // namespace calibd::cli
