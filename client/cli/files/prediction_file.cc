#include "client/cli/files/prediction_file.h"

#include <algorithm>
#include <array>
#include <charconv>
#include <cmath>
#include <iostream>
#include <limits>
#include <numeric>
#include <regex>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_replace.h"
#include "calibd/core/row_sum.h"
#include "calibd/core/status_macros.h"
#include "client/cli/commands/command.h"
#include "client/cli/files/file_format.h"
#include "client/cli/files/label_parser.h"
#include "client/cli/files/npy_reader.h"
#include "client/cli/files/npz_reader.h"
#include "client/cli/files/text_predictions.h"
#include "client/cli/files/text_row.h"

namespace calibd::cli {
namespace {

// Returns the only array of the file, or the one that is stated or has one of the names; unset
// without such an array.
std::optional<std::string> FindArray(const NpzFile& file, const std::string& stated,
                                     const std::vector<std::string>& names, bool only) {
  const std::vector<std::string>& existing = file.names();
  const auto exists = [&](const std::string& name) {
    return std::find(existing.begin(), existing.end(), name) != existing.end();
  };
  if (!stated.empty()) return exists(stated) ? std::optional(stated) : std::nullopt;
  if (const auto found = std::find_if(names.begin(), names.end(), exists); found != names.end()) {
    return *found;
  }
  return only && existing.size() == 1 ? std::optional(existing[0]) : std::nullopt;
}

absl::StatusOr<NpyArray> ReadNamedArray(const InputFile& open, const NpzFile& file,
                                        const char* option, const std::string& stated,
                                        const std::vector<std::string>& names) {
  const std::optional<std::string> name = FindArray(file, stated, names, true);
  if (name.has_value()) return file.Read(*name);
  return absl::InvalidArgumentError(absl::StrCat(
      open.name, " has the arrays ", ListNames(file.names()), ", but none named ",
      ListNames(stated.empty() ? names : std::vector{stated}), "; state one with ", option));
}

// Converts an array of labels to classes. With drop_invalid, what is not a class becomes -1.
absl::Status ParseLabels(const NpyArray& array, const LabelParser& parser, bool drop_invalid,
                         Input& input) {
  const RowPlaces& places = input.label_places;
  if (array.column_count != 1) {
    return absl::InvalidArgumentError(
        absl::StrCat(places.path, ": shape (", array.row_count, ", ", array.column_count,
                     "), expected one label in each row, (n, ) or (n, 1)"));
  }
  for (std::size_t i = 0; i < array.row_count; ++i) {
    std::string text;
    if (array.values.empty()) {
      text = array.texts[i];
    } else if (array.truth_values) {
      text = array.values[i] != 0 ? "True" : "False";
    } else {
      std::array<char, 32> digits{};
      text.assign(digits.data(),
                  std::to_chars(digits.data(), digits.data() + digits.size(), array.values[i]).ptr);
    }
    const auto label = parser.Parse(text);
    if (!label.ok() && !drop_invalid) {
      return absl::InvalidArgumentError(absl::StrCat(places.Of(i), ": ",
                                                     std::string(label.status().message()),
                                                     "; --drop-invalid leaves out invalid rows"));
    }
    input.labels.push_back(label.value_or(-1));
  }
  return absl::OkStatus();
}

// Returns 0 or 1 for a stated positive class. If it is stated as a number, labels are numbers too,
// and the label base is set.
absl::StatusOr<std::optional<std::int32_t>> ResolvePositiveClass(InputOptions& options) {
  if (options.positive_class.empty()) return std::optional<std::int32_t>();
  const std::vector<std::string>& names = options.class_names;
  if (!names.empty() && names.size() != 2) {
    return absl::InvalidArgumentError(absl::StrCat(
        "--positive-class is for 2 classes, but there are ", names.size(), ": ", ListNames(names)));
  }
  const auto found = std::find(names.begin(), names.end(), options.positive_class);
  if (found != names.end()) return static_cast<std::int32_t>(found - names.begin());
  const int base = options.label_base.value_or(0);
  for (std::int32_t k = 0; k < 2; ++k) {
    if (options.positive_class != absl::StrCat(base + k)) continue;
    options.label_base = base;
    return k;
  }
  return UsageFault(absl::StrCat("--positive-class is ", Quote(options.positive_class),
                                 ", expected ", names.empty() ? "" : ListNames(names) + ", or ",
                                 base, " or ", base + 1,
                                 names.empty() ? "; a class name needs --class-names A,B" : ""));
}

// Replaces the probability p of the positive class by a row of two: 1 - p and p, or the logits 0
// and p. An invalid p becomes both, so that the error shows it.
void ExpandPositiveClass(bool logits, std::int32_t positive_class, Input& input) {
  std::vector<double> rows;
  rows.reserve(2 * input.values.size());
  for (const double p : input.values) {
    const double other = logits ? (std::isfinite(p) ? 0 : p) : (p >= 0 && p <= 1 ? 1 - p : p);
    rows.push_back(positive_class == 0 ? p : other);
    rows.push_back(positive_class == 0 ? other : p);
  }
  input.values = std::move(rows);
  const std::size_t column = input.class_columns.empty() ? 0 : input.class_columns[0];
  input.class_columns = {column, column};
}

void Renormalise(Input& input) {
  const std::size_t m = input.class_count;
  const double rounding = static_cast<double>(m) * std::numeric_limits<double>::epsilon();
  for (auto row = input.values.begin(); row != input.values.end();
       row += static_cast<std::ptrdiff_t>(m)) {
    const auto end = row + static_cast<std::ptrdiff_t>(m);
    double sum = 0;
    for (auto value = row; value != end; ++value) sum += *value;
    const bool valid = std::all_of(row, end, [](double value) { return value >= 0; });
    // Written so that NaN and infinity are left to the check of the values.
    if (!valid || !(sum > 0 && sum <= std::numeric_limits<double>::max())) continue;
    const double correction = std::abs(sum - 1);
    if (correction <= rounding) continue;
    for (auto value = row; value != end; ++value) *value /= sum;
    ++input.renormalisation.rows;
    input.renormalisation.largest_correction =
        std::max(input.renormalisation.largest_correction, correction);
  }
}

// Reads the values of an array, and the labels of an NPZ file that has them.
absl::StatusOr<std::optional<NpyArray>> ReadArrays(InputFile& open, const InputOptions& options,
                                                   bool positive_class, Input& input) {
  const ColumnOptions& columns = options.columns;
  if (!columns.id.empty() || !columns.time.empty() || !columns.group.empty() ||
      !columns.dropped.empty() || options.labels_last_column || columns.header.has_value()) {
    return UsageFault(absl::StrCat(open.name,
                                   " is a NumPy file: --id-column, --time-column, "
                                   "--group-column, --drop-column, --header and "
                                   "--labels-last-column are for CSV and JSON Lines"));
  }
  NpyArray array;
  std::optional<NpyArray> labels;
  if (open.format == FileFormat::kNpy) {
    CALIBD_ASSIGN_OR_RETURN(array, ReadNpy(open.stream, open.name));
  } else {
    CALIBD_ASSIGN_OR_RETURN(const NpzFile file, NpzFile::Open(open.path));
    CALIBD_ASSIGN_OR_RETURN(array, ReadNamedArray(open, file, "--predictions-key",
                                                  columns.predictions, kPredictionNames));
    if (options.labels.empty()) {
      if (FindArray(file, columns.label, kLabelNames, false).has_value() ||
          !columns.label.empty()) {
        CALIBD_ASSIGN_OR_RETURN(
            labels, ReadNamedArray(open, file, "--label-column", columns.label, kLabelNames));
      }
    }
  }
  if (array.values.empty() || array.truth_values) {
    return absl::InvalidArgumentError(
        absl::StrCat(open.name, " holds ", array.truth_values ? "truth values" : "texts",
                     ", expected probabilities; PREDICTIONS comes before LABELS"));
  }
  if (positive_class ? array.column_count != 1 : array.column_count < 2) {
    return absl::InvalidArgumentError(absl::StrCat(
        open.name, " has ", array.column_count, array.column_count == 1 ? " column" : " columns",
        " of probabilities, expected ",
        positive_class ? "one with --positive-class"
                       : "one for each of 2 classes or more; if the values are the probability of "
                         "one of two classes, name this class with --positive-class"));
  }
  input.class_count = array.column_count;
  input.values = std::move(array.values);
  input.class_names = options.class_names;
  return labels;
}

absl::StatusOr<LabelParser> MakeParser(const InputOptions& options, const Input& input,
                                       std::optional<std::int32_t> positive_class) {
  return LabelParser::Create({.base = options.label_base,
                              .class_names = input.class_names,
                              .class_count = input.class_count,
                              .positive_class = positive_class,
                              .names_need = input.prediction_places.csv
                                                ? "need --class-names or a header"
                                                : "need --class-names"});
}

absl::Status ReadLabels(const InputOptions& options, std::size_t row_count,
                        std::optional<std::int32_t> positive_class, Input& input) {
  CALIBD_ASSIGN_OR_RETURN(const LabelParser parser, MakeParser(options, input, positive_class));
  CALIBD_ASSIGN_OR_RETURN(InputFile open, OpenInput(options.labels));
  input.label_places.path = open.name;
  input.label_places.csv = open.format == FileFormat::kCsv;
  if (open.format == FileFormat::kNpy) {
    CALIBD_ASSIGN_OR_RETURN(const NpyArray array, ReadNpy(open.stream, open.name));
    return ParseLabels(array, parser, options.drop_invalid, input);
  }
  if (open.format == FileFormat::kNpz) {
    CALIBD_ASSIGN_OR_RETURN(const NpzFile file, NpzFile::Open(open.path));
    CALIBD_ASSIGN_OR_RETURN(
        const NpyArray array,
        ReadNamedArray(open, file, "--label-column", options.columns.label, kLabelNames));
    return ParseLabels(array, parser, options.drop_invalid, input);
  }
  return ReadTextLabels(open.stream, open.format, options, parser, row_count, input);
}

// Checks that there is one of the rows for each prediction. noun: names a row.
absl::Status CheckCount(const RowPlaces& places, const char* noun, std::size_t count,
                        std::size_t expected) {
  if (count == expected) return absl::OkStatus();
  return absl::InvalidArgumentError(
      absl::StrCat(places.path, " holds ", count, " ", noun, count == 1 ? "" : "s", ", expected ",
                   expected, ", one for each prediction",
                   places.csv && count == expected + 1
                       ? "; if the first line of each file holds names, say --header"
                       : ""));
}

// Reads a file with one text for each prediction, if there is one.
absl::Status ReadTextFile(const std::string& path, const char* noun, const ColumnOptions& columns,
                          std::size_t row_count, std::vector<std::string>& texts,
                          RowPlaces& places) {
  if (path.empty()) return absl::OkStatus();
  CALIBD_ASSIGN_OR_RETURN(InputFile open, OpenInput(path));
  places.path = open.name;
  places.csv = true;
  CALIBD_ASSIGN_OR_RETURN(texts, ReadTexts(open.stream, noun, columns, places));
  return CheckCount(places, noun, texts.size(), row_count);
}

// Replaces each "rows[i].field[k]" and "labels[i]" by place(field, i) and column(k).
template <typename PlaceOf, typename ColumnOf>
std::string ReplaceRows(const std::string& faults, const PlaceOf& place, const ColumnOf& column) {
  static const std::regex kRow(R"((rows|labels)\[(\d+)\](?:\.(\w+))?(?:\[(\d+)\])?)");
  std::string text;
  auto rest = faults.begin();
  for (std::sregex_iterator row(faults.begin(), faults.end(), kRow), end; row != end; ++row) {
    const std::smatch& match = *row;
    text.append(rest, match[0].first);
    rest = match[0].second;
    text += place(match[3].matched ? match[3].str() : match[1].str(), std::stoull(match[2].str()));
    if (match[4].matched) absl::StrAppend(&text, ", column ", column(std::stoull(match[4].str())));
    if (match[3] == "outcomes") text += ", outcome";
  }
  return text.append(rest, faults.end());
}

// Says what the values may be if most rows have one outside [0, 1]; empty otherwise.
std::string ScaleHint(const Input& input) {
  constexpr std::size_t kRows = 100;
  const std::size_t m = input.class_count;
  // The probability of a positive class stands in both columns.
  const bool one_value =
      input.class_columns.size() == 2 && input.class_columns[0] == input.class_columns[1];
  const std::size_t n = std::min(kRows, input.values.size() / m);
  std::size_t outside = 0;
  std::size_t percentages = 0;
  for (std::size_t i = 0; i < n; ++i) {
    const auto row = std::span(input.values).subspan(i * m, m);
    const auto [lowest, highest] = std::minmax_element(row.begin(), row.end());
    const double sum = one_value ? 100 : std::accumulate(row.begin(), row.end(), 0.0);
    if (*lowest < 0 || *highest > 1) ++outside;
    if (*lowest >= 0 && *highest <= 100 && std::abs(sum - 100) < 1) ++percentages;
  }
  if (2 * outside <= n) return "";
  return percentages == n ? "; are these percentages? divide them by 100"
                          : "; are these logits? add --logits";
}

}  // namespace

std::string RowPlaces::Of(std::size_t row) const {
  return row < lines.size() ? absl::StrCat(path, " line ", lines[row])
                            : absl::StrCat(path, " row ", row, " (counted from 0)");
}

FileRows ToProto(const Renormalisation& renormalisation) {
  FileRows rows;
  rows.set_renormalised_rows(renormalisation.rows);
  rows.set_largest_row_sum_correction(renormalisation.largest_correction);
  return rows;
}

std::string Describe(const Renormalisation& renormalisation) {
  return absl::StrCat(renormalisation.rows,
                      " rows were divided by their sums, which differed from ", "1 by at most ",
                      renormalisation.largest_correction, "\n");
}

void TellNote(const Input& input) {
  if (!input.note.empty()) std::cerr << "calibctl: " << input.note << '\n';
}

absl::StatusOr<Input> ReadInput(const InputOptions& stated) {
  InputOptions options = stated;
  CALIBD_ASSIGN_OR_RETURN(const auto positive_class, ResolvePositiveClass(options));
  CALIBD_ASSIGN_OR_RETURN(InputFile open, OpenInput(options.predictions));
  Input input;
  input.prediction_places.path = open.name;
  input.prediction_places.csv = open.format == FileFormat::kCsv;
  if (open.format == FileFormat::kNpy || open.format == FileFormat::kNpz) {
    CALIBD_ASSIGN_OR_RETURN(const auto labels,
                            ReadArrays(open, options, positive_class.has_value(), input));
    if (positive_class.has_value()) input.class_count = 2;
    if (labels.has_value()) {
      input.label_places.path = open.name;
      CALIBD_ASSIGN_OR_RETURN(const LabelParser parser, MakeParser(options, input, positive_class));
      CALIBD_RETURN_IF_ERROR(ParseLabels(*labels, parser, options.drop_invalid, input));
    }
  } else {
    CALIBD_RETURN_IF_ERROR(
        ReadTextPredictions(open.stream, open.format, options, positive_class, input));
    input.class_count = positive_class.has_value() ? 2 : input.class_columns.size();
  }
  if (!input.class_names.empty() && input.class_names.size() != input.class_count) {
    return absl::InvalidArgumentError(
        absl::StrCat(open.name, " has ", input.class_count,
                     " columns of probabilities, expected one for each of ",
                     input.class_names.size(), " classes: ", ListNames(input.class_names)));
  }
  if (positive_class.has_value()) ExpandPositiveClass(options.logits, *positive_class, input);
  const std::size_t row_count = input.values.size() / input.class_count;
  if (!options.labels.empty()) {
    CALIBD_RETURN_IF_ERROR(ReadLabels(options, row_count, positive_class, input));
  }
  CALIBD_RETURN_IF_ERROR(
      ReadTextFile(options.ids, "id", options.columns, row_count, input.ids, input.id_places));
  CALIBD_RETURN_IF_ERROR(ReadTextFile(options.groups, "group value", options.columns, row_count,
                                      input.groups, input.group_places));
  if (options.labels_needed && options.labels.empty() && input.labels.empty() &&
      input.ids.empty()) {
    return UsageFault(
        absl::StrCat("LABELS is missing: give a file, or state with --label-column "
                     "where the labels are in ",
                     open.name));
  }
  if (!options.labels.empty() || !input.labels.empty()) {
    CALIBD_RETURN_IF_ERROR(CheckCount(input.label_places, "label", input.labels.size(), row_count));
  }
  if (options.renormalise) Renormalise(input);
  return input;
}

absl::Status DescribeFaults(const Input& input, const absl::Status& faults) {
  const auto place = [&](const std::string& field, std::size_t i) {
    if (field.starts_with("baseline_")) return input.baseline_places.Of(i);
    const RowPlaces& own = field == "labels" ? input.label_places : input.id_places;
    const bool other = (field == "labels" || field == "prediction_ids") && !own.path.empty();
    return (other ? own : input.prediction_places).Of(i);
  };
  const auto column = [&](std::size_t k) {
    const std::size_t at = k < input.class_columns.size() ? input.class_columns[k] : k;
    const bool named = k < input.class_names.size();
    return absl::StrCat(at + 1, named ? absl::StrCat(" (", Quote(input.class_names[k]), ")") : "");
  };
  // The advice on row sums ends the message, instead of the description of each row.
  std::string text = ReplaceRows(std::string(faults.message()), place, column);
  if (absl::StrReplaceAll({{kRowSumAdvice, ""}}, &text) > 0) text += kRowSumAdvice;
  return absl::InvalidArgumentError(text + ScaleHint(input) +
                                    " (--drop-invalid leaves out invalid rows)");
}

absl::StatusOr<LabelsById> ReadLabelFile(const LabelFileOptions& options,
                                         std::span<const std::string> class_names,
                                         std::size_t class_count) {
  CALIBD_ASSIGN_OR_RETURN(
      const LabelParser parser,
      LabelParser::Create({.base = options.label_base,
                           .class_names = class_names,
                           .class_count = class_count,
                           .positive_class = {},
                           .names_need = "work only if the model was created with --class-names"}));
  CALIBD_ASSIGN_OR_RETURN(InputFile open, OpenInput(options.path));
  if (open.format == FileFormat::kNpy || open.format == FileFormat::kNpz) {
    return absl::InvalidArgumentError(absl::StrCat(
        open.name, " is a NumPy file, expected CSV or JSON Lines with ids and labels"));
  }
  LabelsById file;
  file.places.path = open.name;
  CALIBD_RETURN_IF_ERROR(ReadTextLabelsById(open.stream, open.format, options, parser, file));
  return file;
}

absl::Status DescribeFaults(const RowPlaces& places, const absl::Status& faults) {
  const auto place = [&](const std::string& field, std::size_t i) {
    const bool named = field == "mean" || field == "standard_deviation" || field == "outcome";
    return absl::StrCat(places.Of(i), named ? ", " : "", named ? field : "");
  };
  return absl::InvalidArgumentError(
      ReplaceRows(std::string(faults.message()), place, [](std::size_t k) { return k + 1; }));
}

}  // namespace calibd::cli
