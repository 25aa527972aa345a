#include "client/cli/files/prediction_file.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <numeric>
#include <optional>
#include <string_view>
#include <utility>

#include "absl/strings/ascii.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/strings/str_replace.h"
#include "calibd/convert/text.h"
#include "calibd/core/probability.h"
#include "calibd/core/row_sum.h"
#include "calibd/core/status_macros.h"
#include "calibd/core/validation.h"
#include "client/cli/commands/command.h"
#include "client/cli/files/file_format.h"
#include "client/cli/files/label_parser.h"
#include "client/cli/files/row_faults.h"
#include "client/cli/files/text_row.h"

namespace calibd::cli {
namespace {

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

// Whether a text is 1 or True (true), or 0 or False (false); unset for another text.
std::optional<bool> TruthValueOf(std::string_view text) {
  const std::string lower = absl::AsciiStrToLower(std::string(text));
  if (lower == "1" || lower == "1.0" || lower == "true") return true;
  if (lower == "0" || lower == "0.0" || lower == "false") return false;
  return std::nullopt;
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
  input.width = 2;
  input.columns.values.resize(2, input.columns.values[0]);
}

void Renormalise(Input& input) {
  Renormalisation& done = input.changes.renormalisation.emplace();
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
    ++done.rows;
    done.largest_correction = std::max(done.largest_correction, correction);
  }
}

// The keys that have a role in JSON Lines without an option.
constexpr UsualNames kUsualKeys{.truth = "label", .id = "id", .time = "time", .group = "group"};

// Reads the files of predictions of classes. positive_class: 0 or 1 if the file has only the
// probabilities of this class.
class ClassReader {
 public:
  ClassReader(const InputOptions& options, std::optional<std::int32_t> positive_class,
              InputFile& file)
      : options_(options), positive_class_(positive_class), file_(file) {}

  absl::Status Read(Input& input) {
    const TableSchema schema{.options = options_.columns,
                             .is_header =
                                 [&](std::span<const std::string_view> first_row) {
                                   return IsHeader(options_.columns, file_.name, first_row, note_);
                                 },
                             .plan = [&](const TableHead& head) { return Plan(head); },
                             .parse_truth = [&](std::string_view text) { return Parse(text); },
                             .value = options_.logits ? "a logit" : "a probability in [0, 1]",
                             .truths = "labels",
                             .truth_array = options_.labels.empty()};
    CALIBD_ASSIGN_OR_RETURN(static_cast<Table&>(input), ReadTable(file_, schema));
    if (input.row_count == 0) return absl::InvalidArgumentError(file_.name + " holds no rows");
    input.class_count = class_count_;
    input.class_names = class_names_;
    if (class_names_.empty() || class_names_.size() == class_count_) return absl::OkStatus();
    return absl::InvalidArgumentError(
        absl::StrCat(file_.name, " has ", convert::CountText(class_count_, "column"),
                     " of probabilities, expected one for each of ", class_names_.size(),
                     " classes: ", ListNames(class_names_)));
  }

  // Set after Read.
  [[nodiscard]] std::optional<std::int32_t> positive_class() const { return positive_class_; }
  // The names of two classes that the file names itself, after the labels are read.
  [[nodiscard]] std::vector<std::string> found_names() const {
    if (found_class_.empty() || other_class_.empty()) return {};
    return {other_class_, found_class_};
  }

  // Reads the labels from a file of their own.
  absl::Status ReadLabels(Input& input) {
    CALIBD_RETURN_IF_ERROR(MakeParser());
    CALIBD_ASSIGN_OR_RETURN(InputFile file, OpenInput(options_.labels));
    return ReadTruthFile(
        file, options_.columns, "label", [&](std::string_view text) { return Parse(text); }, input);
  }

 private:
  absl::StatusOr<ColumnPlan> Plan(const TableHead& head) {
    // The label column of an NPZ file is another array.
    ColumnOptions columns = options_.columns;
    if (file_.format == FileFormat::kNpz) columns.label.clear();
    const bool keys = file_.format == FileFormat::kJsonLines;
    CALIBD_ASSIGN_OR_RETURN(ColumnPlan plan,
                            PlanClasses(columns,
                                        {.usual = keys ? kUsualKeys : UsualNames(),
                                         .labels_elsewhere = !options_.labels.empty(),
                                         .class_names = options_.class_names,
                                         .label_base = options_.label_base,
                                         .positive_class = PositiveName(),
                                         .labels_last = options_.labels_last_column,
                                         .finds_positive_class = options_.finds_positive_class,
                                         .predictions = head.predictions},
                                        file_.name, head.names, head.column_count));
    if (plan.note.empty()) plan.note = note_;
    if (!plan.positive_class.empty()) {
      // The other class has no name before the labels are read.
      positive_class_ = 1;
      found_class_ = plan.positive_class;
    }
    class_count_ = positive_class_.has_value() ? 2 : plan.values.size();
    class_names_ = plan.value_names.empty() ? options_.class_names : plan.value_names;
    plan.value_names = class_names_;
    if (!plan.truths.empty() || head.truth_array) CALIBD_RETURN_IF_ERROR(MakeParser());
    return plan;
  }

  // The name of the stated positive class, or its number.
  [[nodiscard]] std::string_view PositiveName() const {
    if (!positive_class_.has_value()) return "";
    const auto k = static_cast<std::size_t>(*positive_class_);
    return k < options_.class_names.size() ? std::string_view(options_.class_names[k])
                                           : std::string_view(options_.positive_class);
  }

  absl::Status MakeParser() {
    CALIBD_ASSIGN_OR_RETURN(
        parser_, LabelParser::Create({.base = options_.label_base,
                                      .class_names = class_names_,
                                      .names_of_columns = options_.class_names.empty(),
                                      .class_count = class_count_,
                                      .positive_class = positive_class_,
                                      .names_need = file_.format == FileFormat::kCsv
                                                        ? "need --class-names or a header"
                                                        : "need --class-names"}));
    return absl::OkStatus();
  }

  [[nodiscard]] absl::StatusOr<double> Parse(std::string_view text) {
    if (!found_class_.empty() && !IsMissing(text)) return ParseByFoundClass(text);
    const absl::StatusOr<std::int32_t> label = parser_->Parse(text);
    if (!label.ok()) return label.status();
    return *label;
  }

  // Returns 1 for the class after whose probability a column is named, and 0 for the other one.
  absl::StatusOr<double> ParseByFoundClass(std::string_view text) {
    if (text == found_class_) return 1;
    const std::optional<bool> named = TruthValueOf(found_class_);
    const std::optional<bool> value = TruthValueOf(text);
    if (named.has_value() && value.has_value()) return named == value ? 1 : 0;
    double number = 0;
    const bool is_number = ParseDouble(text, number);
    // True: the class is true.
    if (value.has_value() && !is_number) return *value ? 1 : 0;
    if (is_number && !ParseDouble(found_class_, number)) {
      return absl::InvalidArgumentError(absl::StrCat(
          "label ", Quote(text), " does not say whether it is the class ", Quote(found_class_),
          ": add --positive-class 1 if 1 is this class, or "
          "--positive-class 0 if 0 is"));
    }
    if (other_class_.empty()) other_class_ = text;
    if (text == other_class_) return 0;
    return absl::InvalidArgumentError(absl::StrCat("label ", Quote(text),
                                                   ", expected one of two: ", Quote(found_class_),
                                                   " or ", Quote(other_class_)));
  }

  const InputOptions& options_;
  std::optional<std::int32_t> positive_class_;
  InputFile& file_;
  // Of two classes, the one after whose probability a column is named, and the other one, which the
  // first other label names. Empty if unknown.
  std::string found_class_;
  std::string other_class_;
  // What the user should know about the first line; empty if nothing.
  std::string note_;
  std::size_t class_count_ = 0;
  std::vector<std::string> class_names_;
  std::optional<LabelParser> parser_;
};

// Applies the softmax. A row without a softmax stays unchanged, and is then invalid.
std::vector<Violation> ApplySoftmax(Input& input, bool drop_invalid) {
  const std::size_t m = input.class_count;
  if (!drop_invalid) return SoftmaxRows(input.values, m);
  const std::span<double> values(input.values);
  for (std::size_t i = 0; i < input.row_count; ++i) {
    const std::span<double> row = values.subspan(i * m, m);
    if (std::ranges::all_of(row, [](double logit) { return std::isfinite(logit); })) Softmax(row);
  }
  return {};
}

// The name of a column of values, or its number from 1.
std::string NameOfValue(const Input& input, std::size_t k) {
  const std::size_t column = input.columns.values[k];
  return column < input.columns.names.size() ? input.columns.names[column]
                                             : absl::StrCat(column + 1);
}

// Says that some columns of values hold the labels, if they do: 0 but for a 1 in each row, beside
// columns of probabilities. Empty otherwise.
std::string OneHotHint(const Input& input) {
  const std::size_t m = input.width;
  if (m < 4 || input.values.size() < m || input.class_count != m) return "";
  std::vector<bool> whole(m, true);
  const std::size_t rows = input.values.size() / m;
  for (std::size_t i = 0; i < input.values.size(); ++i) {
    if (input.values[i] != 0 && input.values[i] != 1) whole[i % m] = false;
  }
  const auto count = static_cast<std::size_t>(std::ranges::count(whole, true));
  if (2 * count != m) return "";
  for (std::size_t row = 0; row < rows; ++row) {
    double sum = 0;
    for (std::size_t k = 0; k < m; ++k) sum += whole[k] ? input.values[row * m + k] : 0;
    if (sum != 1) return "";
  }
  std::vector<std::string> names;
  for (std::size_t k = 0; k < m; ++k) {
    if (whole[k]) names.push_back(NameOfValue(input, k));
  }
  return absl::StrCat("; the columns ", ListNames(names),
                      " are 0 except for a 1 in each row: if they are the labels (one-hot), write "
                      "one column with the true class in their place (pandas: idxmax(axis=1), "
                      "NumPy: argmax(axis=1))");
}

// The number of rows that the hints look at.
constexpr std::size_t kHintRows = 100;

// Whether all columns hold the probability of one positive class.
bool HoldsPositiveClass(const Input& input) {
  return input.class_count == 2 && input.columns.values[0] == input.columns.values[1];
}

// For each column of values, whether all values of the first rows are in [0, 1] and one is not 0.
std::vector<bool> ColumnsWithin(const Input& input) {
  const std::size_t m = input.class_count;
  const std::size_t n = std::min(kHintRows, input.values.size() / m);
  std::vector<bool> within(m, true);
  std::vector<bool> zero(m, true);
  for (std::size_t i = 0; i < n * m; ++i) {
    const double value = input.values[i];
    if (!(value >= 0 && value <= 1)) within[i % m] = false;
    if (value != 0) zero[i % m] = false;
  }
  for (std::size_t k = 0; k < m; ++k) within[k] = within[k] && !zero[k];
  return within;
}

// Whether the values of a row without these columns sum to 1.
bool SumsTo1Without(std::span<const double> row, const std::vector<bool>& left_out) {
  constexpr double kRounded = 0.02;
  double sum = 0;
  for (std::size_t k = 0; k < row.size(); ++k) sum += left_out[k] ? 0 : row[k];
  return std::abs(sum - 1) < kRounded;
}

// Says which columns of values hold no probabilities of classes, if the others do; else empty. They
// are those with values outside [0, 1], or else one column without which the rows sum to 1.
std::string SurplusHint(const Input& input) {
  // Fewer rows of logits may have a column within [0, 1].
  constexpr std::size_t kEnoughRows = 10;
  const std::size_t m = input.class_count;
  const std::size_t n = std::min(kHintRows, input.values.size() / m);
  if (HoldsPositiveClass(input)) return "";
  const auto row = [&](std::size_t i) { return std::span(input.values).subspan(i * m, m); };
  const std::vector<bool> none(m, false);
  const auto is_prediction = [&](std::size_t i) {
    return std::ranges::all_of(row(i), [](double value) { return value >= 0 && value <= 1; }) &&
           SumsTo1Without(row(i), none);
  };
  std::size_t predictions = 0;
  for (std::size_t i = 0; i < n; ++i) predictions += is_prediction(i) ? 1U : 0U;
  if (2 * predictions >= n) return "";
  const auto are_surplus = [&](const std::vector<bool>& columns) {
    for (std::size_t i = 0; i < n; ++i) {
      if (!SumsTo1Without(row(i), columns)) return false;
    }
    return true;
  };
  std::vector<bool> surplus = ColumnsWithin(input);
  surplus.flip();
  const auto rest = m - static_cast<std::size_t>(std::ranges::count(surplus, true));
  const bool one_score = rest == 1 && n >= kEnoughRows;
  if (rest == m) {
    // Without one of two columns, all values would be 1.
    for (std::size_t k = 0; k < m && m > 2 && std::ranges::count(surplus, true) == 0; ++k) {
      surplus[k] = true;
      if (!are_surplus(surplus)) surplus[k] = false;
    }
  }
  if (!one_score && (std::ranges::count(surplus, true) == 0 || !are_surplus(surplus))) return "";
  std::vector<std::string> names;
  std::vector<std::string> options;
  std::string score;
  for (std::size_t k = 0; k < m; ++k) {
    const std::string name = NameOfValue(input, k);
    if (!surplus[k]) {
      score = Quote(name);
      continue;
    }
    names.push_back(name);
    options.push_back(OptionValue(name));
  }
  const bool one = names.size() == 1;
  return absl::StrCat(
      "; the column", one ? " " : "s ", ListNames(names),
      one ? " seems to be no class" : " seem to be no classes",
      one_score ? "" : ", because the others sum to 1",
      one ? ": leave it out with --drop-column " : ": leave them out with --drop-column ",
      absl::StrJoin(options, ","),
      one_score ? ", and state with --positive-class whose probability " + score + " is" : "");
}

// Says what the values may be if most rows have one outside [0, 1]; empty otherwise.
std::string ScaleHint(const Input& input) {
  // The sum of the exponentials of logarithms with a few decimals.
  constexpr double kRounded = 0.02;
  const std::size_t m = input.class_count;
  const bool one_value = HoldsPositiveClass(input);
  const std::size_t n = std::min(kHintRows, input.values.size() / m);
  std::size_t outside = 0;
  std::size_t percentages = 0;
  std::size_t logarithms = 0;
  for (std::size_t i = 0; i < n; ++i) {
    const auto row = std::span(input.values).subspan(i * m, m);
    const auto [lowest, highest] = std::minmax_element(row.begin(), row.end());
    const double sum = one_value ? 100 : std::accumulate(row.begin(), row.end(), 0.0);
    if (*lowest < 0 || *highest > 1) ++outside;
    if (*lowest >= 0 && *highest <= 100 && std::abs(sum - 100) < 1) ++percentages;
    double exponentials = one_value ? 1 : 0;
    for (std::size_t k = 0; k < m && !one_value; ++k) exponentials += std::exp(row[k]);
    if (*highest <= 0 && std::abs(exponentials - 1) < kRounded) ++logarithms;
  }
  if (2 * outside <= n) return "";
  if (percentages == n) return "; are these percentages? divide them by 100";
  constexpr std::string_view kLogarithms = "logarithms of probabilities? replace each by its exp";
  if (logarithms < n) {
    // A softmax of several columns has none of which all logits are in [0, 1], but for a 0.
    const bool maybe = one_value || std::ranges::count(ColumnsWithin(input), true) == 0;
    return maybe ? "; are these logits? add --logits" : "";
  }
  // One value in each row may be either.
  return absl::StrCat("; are these ", std::string(kLogarithms),
                      one_value ? ", or if these are logits, add --logits" : "");
}

// Adds the options that help against invalid rows to their error.
absl::Status Advise(const Input& input, const absl::Status& faults) {
  // The advice on row sums ends the message, instead of the description of each row.
  std::string text(faults.message());
  const bool little = absl::StrReplaceAll({{kRowSumAdvice, ""}}, &text) > 0;
  const bool low = absl::StrReplaceAll({{kNoSumAdvice, ""}}, &text) > 0;
  const bool large = absl::StrReplaceAll({{kLargeSumAdvice, ""}}, &text) > 0;
  if (const std::string one_hot = OneHotHint(input); !one_hot.empty()) {
    return absl::InvalidArgumentError(text + one_hot);
  }
  if (const std::string surplus = SurplusHint(input); !surplus.empty()) {
    return absl::InvalidArgumentError(text + surplus);
  }
  if (low || large) {
    text += low ? kNoSumAdvice : kLargeSumAdvice;
  } else if (little) {
    text += kRowSumAdvice;
  }
  const std::string scale = ScaleHint(input);
  // If the values are no probabilities, those that look like some would remain.
  const bool may_drop = scale.empty() && !low && !large;
  return absl::InvalidArgumentError(
      absl::StrCat(text, scale, may_drop ? " (--drop-invalid leaves out invalid rows)" : ""));
}

}  // namespace

std::vector<std::int32_t> ClassesOf(std::span<const double> truths) {
  std::vector<std::int32_t> classes(truths.size());
  std::ranges::transform(truths, classes.begin(), [](double truth) {
    return std::isfinite(truth) ? static_cast<std::int32_t>(truth) : -1;
  });
  return classes;
}

absl::StatusOr<Input> ReadInput(const InputOptions& options) {
  CALIBD_ASSIGN_OR_RETURN(InputFile file, OpenInput(options.predictions));
  return ReadInput(options, file);
}

absl::StatusOr<Input> ReadInput(const InputOptions& stated, InputFile& file) {
  InputOptions options = stated;
  CALIBD_ASSIGN_OR_RETURN(auto positive_class, ResolvePositiveClass(options));
  ClassReader reader(options, positive_class, file);
  Input input;
  CALIBD_RETURN_IF_ERROR(reader.Read(input));
  positive_class = reader.positive_class();
  if (!options.logits) input.changes.rounded_probabilities = RoundToProbabilities(input.values);
  if (positive_class.has_value()) ExpandPositiveClass(options.logits, *positive_class, input);
  if (!options.labels.empty()) CALIBD_RETURN_IF_ERROR(reader.ReadLabels(input));
  if (input.class_names.empty()) input.class_names = reader.found_names();
  if (input.class_names.empty() && options.label_base == 1) {
    // Without names, answers would count the classes from 0.
    for (std::size_t k = 1; k <= input.class_count; ++k) {
      input.class_names.push_back(absl::StrCat(k));
    }
  }
  CALIBD_RETURN_IF_ERROR(ReadOtherFiles(options, input));
  if (options.labels_needed && options.labels.empty() && input.truths.empty() &&
      input.ids.empty()) {
    return UsageFault(
        absl::StrCat("LABELS is missing: give a file, or state with --label-column "
                     "where the labels are in ",
                     file.name, OneHotHint(input)));
  }
  if (!input.truths.empty()) {
    CALIBD_RETURN_IF_ERROR(CheckCount(input.truth_places, "label", input.truths.size(), input));
  }
  input.labels = ClassesOf(input.truths);
  if (options.renormalise) Renormalise(input);
  return input;
}

absl::StatusOr<Input> ReadObservations(const InputOptions& stated, double row_sum_tolerance) {
  InputOptions options = stated;
  // The classes are those of the file: no model or map has another order of them.
  options.finds_positive_class = options.labels_needed;
  CALIBD_ASSIGN_OR_RETURN(Input input, ReadInput(options));
  if (!options.labels_needed) input.labels.assign(input.row_count, 0);
  if (input.labels.empty()) return UsageFault("LABELS is missing: an evaluation needs labels");
  TellNotes(input, !options.logits);
  const bool drop = options.columns.drop_invalid;
  std::vector<Violation> violations;
  if (options.logits) violations = ApplySoftmax(input, drop);
  const PredictionBatch all{input.values, input.labels, input.class_count};
  if (!drop) {
    if (violations.empty()) violations = FindViolations(all, row_sum_tolerance);
    if (!violations.empty()) return DescribeFaults(input, violations);
    input.changes.dropped_rows = 0;
    return input;
  }
  DropInvalidRows(
      [&](std::size_t row) { return FindViolations(all.rows(row, 1), row_sum_tolerance).empty(); },
      input);
  if (input.row_count == 0) {
    return FileError(
        input.places.path,
        absl::StrCat(*input.changes.dropped_rows == 1
                         ? "the only row is"
                         : absl::StrCat("all ", *input.changes.dropped_rows, " rows are"),
                     " invalid; without --drop-invalid, the error says what is wrong "
                     "with the first"));
  }
  if (options.labels_needed) {
    input.labels = ClassesOf(input.truths);
  } else {
    input.labels.resize(input.row_count);
  }
  return input;
}

absl::Status DescribeFaults(const Input& input, std::span<const Violation> violations) {
  return Advise(input, DescribeFaults(static_cast<const Table&>(input), violations));
}

absl::Status DescribeFaults(const Input& input, const absl::Status& status) {
  return Advise(input, DescribeFaults(static_cast<const Table&>(input), status));
}

}  // namespace calibd::cli
