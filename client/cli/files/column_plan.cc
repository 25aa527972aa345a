#include "client/cli/files/column_plan.h"

#include <algorithm>
#include <charconv>
#include <iterator>
#include <numeric>
#include <optional>

#include "absl/container/flat_hash_set.h"
#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "calibd/convert/text.h"
#include "calibd/core/status_macros.h"
#include "client/cli/commands/command.h"
#include "client/cli/files/column_names.h"
#include "client/cli/files/label_parser.h"
#include "client/cli/files/text_row.h"

namespace calibd::cli {
namespace {

constexpr char kColumnHint[] =
    "; leave a column out with --drop-column, or say what it holds with --label-column, "
    "--id-column, --time-column or --group-column";

bool IsNumber(std::string_view cell) {
  double number = 0;
  const char* const end = cell.data() + cell.size();
  const auto [parsed, error] = std::from_chars(cell.data(), end, number);
  return parsed == end && error != std::errc::invalid_argument;
}

// Returns the stated name, or the usual one.
std::string StatedOr(const std::string& stated, std::string_view usual) {
  return stated.empty() ? std::string(usual) : stated;
}

// Returns the names that are not among the others.
std::vector<std::string> Without(std::span<const std::string> names,
                                 std::span<const std::string> others) {
  std::vector<std::string> rest;
  std::copy_if(names.begin(), names.end(), std::back_inserter(rest), [&](const std::string& name) {
    return std::find(others.begin(), others.end(), name) == others.end();
  });
  return rest;
}

// Says which columns are not classes, which classes have no column, and what to do.
std::string DescribeMismatch(std::span<const std::string> columns,
                             std::span<const std::string> classes) {
  const std::vector<std::string> extra = Without(columns, classes);
  const std::vector<std::string> missing = Without(classes, columns);
  std::vector<std::string> parts;
  if (!extra.empty()) {
    parts.push_back(absl::StrCat(extra.size() == 1 ? "column " : "columns ", ListNames(extra),
                                 extra.size() == 1 ? " is no class" : " are no classes"));
  }
  parts.push_back(absl::StrCat(missing.size() == 1 ? "class " : "classes ", ListNames(missing),
                               missing.size() == 1 ? " has no column" : " have no columns"));
  parts.push_back(absl::StrCat("the classes are ", ListNames(classes)));
  std::string text = absl::StrJoin(parts, "; ");
  if (!extra.empty()) {
    text +=
        "; rename the columns of classes to NAME, or to NAME after the same text for all, such as "
        "prob_NAME";
  }
  return text;
}

// Returns the elements in this order.
template <typename T>
std::vector<T> InOrder(const std::vector<T>& elements, std::span<const std::size_t> order) {
  std::vector<T> ordered;
  for (const std::size_t index : order) ordered.push_back(elements[index]);
  return ordered;
}

// Errors: InvalidArgument if a class column has no name, or two have the same.
absl::Status CheckNames(const std::string& source, const std::vector<std::string>& names,
                        const ColumnPlan& plan) {
  absl::flat_hash_set<std::string> seen;
  for (std::size_t k = 0; k < names.size(); ++k) {
    if (names[k].empty()) {
      return FileError(source, absl::StrCat("column ", plan.values[k] + 1,
                                            " has no name in the header", kColumnHint));
    }
    if (!seen.insert(names[k]).second) {
      return FileError(source, absl::StrCat("two columns have the name ", Quote(names[k])));
    }
  }
  return absl::OkStatus();
}

// Errors: InvalidArgument if a label has a column with its probability and one with its truth.
absl::Status RefuseSeveralLabels(const std::string& source, std::span<const std::string> names) {
  constexpr std::string_view kProbability = "prob_";
  for (const std::string& name : names) {
    if (!name.starts_with(kProbability)) continue;
    const std::string label = name.substr(kProbability.size());
    if (std::ranges::find(names, "label_" + label) == names.end()) continue;
    return FileError(
        source, absl::StrCat(
                    "has the columns ", Quote(name), " and ", Quote("label_" + label),
                    ", as several labels have that do not exclude each other: use calibctl "
                    "evaluate-labels, or send them to a model of calibctl model create --labels; "
                    "for one label alone, use --label-column, --positive-class 1 and "
                    "--predictions-key; if exactly one label of each row is 1 (one-hot), write one "
                    "column with the true class instead"));
  }
  return absl::OkStatus();
}

// Returns the class whose probability a column is named after, as prob_yes is; empty for another
// name. pred_ is not among the prefixes, because a column pred_yes may hold predicted classes.
std::string_view ClassOfProbability(std::string_view name) {
  constexpr std::string_view kPrefixes[] = {".pred_", "probability_", "predict_proba_", "proba_",
                                            "prob_"};
  for (const std::string_view prefix : kPrefixes) {
    if (name.starts_with(prefix)) return name.substr(prefix.size());
  }
  return "";
}

// Whether a column has the name of a probability of no class in particular.
bool IsProbability(std::string_view name) {
  constexpr std::string_view kNames[] = {"probability", "prob", "proba", "y_prob"};
  return std::ranges::find(kNames, name) != std::end(kNames);
}

// The columns of values that are named after the probability of a class.
std::vector<std::size_t> NamedProbabilities(std::span<const std::string> names,
                                            std::span<const std::size_t> values) {
  std::vector<std::size_t> found;
  std::ranges::copy_if(values, std::back_inserter(found), [&](std::size_t column) {
    return !ClassOfProbability(names[column]).empty();
  });
  return found;
}

// Returns the only column of values that is named after the probability of the positive class, or
// if the classes have no names, after any probability that is not that of another number. Unset
// without one, and with several. A column with the name of the class alone may hold its labels.
std::optional<std::size_t> PositiveColumn(const ColumnExpectation& expectation,
                                          std::span<const std::string> names,
                                          std::span<const std::size_t> values) {
  std::vector<std::size_t> found;
  std::vector<std::size_t> others;
  for (const std::size_t column : values) {
    const std::string_view named = ClassOfProbability(names[column]);
    if (named == expectation.positive_class) {
      found.push_back(column);
    } else if (!named.empty() || IsProbability(names[column])) {
      others.push_back(column);
    }
  }
  if (found.size() == 1) return found[0];
  if (!found.empty() || others.size() != 1 || !expectation.class_names.empty()) return std::nullopt;
  return IsNumber(ClassOfProbability(names[others[0]])) ? std::nullopt : std::optional(others[0]);
}

// Leaves PositiveColumn the only column of values, if there is one.
void FindPositiveColumn(const ColumnExpectation& expectation, const std::string& source,
                        std::span<const std::string> names, ColumnPlan& plan) {
  const std::optional<std::size_t> column = PositiveColumn(expectation, names, plan.values);
  if (!column.has_value() || plan.values.size() == 1) return;
  std::vector<std::string> others;
  for (const std::size_t other : plan.values) {
    if (other != *column) others.push_back(names[other]);
  }
  plan.values = {*column};
  plan.note = absl::StrCat(source, ": ", Quote(names[*column]),
                           " is the probability of the positive class; the ",
                           others.size() == 1 ? "column " : "columns ", ListNames(others),
                           others.size() == 1 ? " is" : " are", " not read");
}

// Of two columns, takes the one that is named after no probability as the labels, if there are
// none.
void TakeOtherAsLabels(const ColumnExpectation& expectation, std::span<const std::string> names,
                       ColumnPlan& plan) {
  const bool may_take = expectation.finds_positive_class && !expectation.labels_elsewhere &&
                        plan.truths.empty() && plan.values.size() == 2;
  if (!may_take) return;
  const std::vector<std::size_t> found = NamedProbabilities(names, plan.values);
  if (found.size() != 1) return;
  // prob_0 contradicts the positive class 1.
  const std::string_view named = ClassOfProbability(names[found[0]]);
  if (IsNumber(named) && named != expectation.positive_class) return;
  plan.truths = {plan.values[0] == found[0] ? plan.values[1] : plan.values[0]};
  plan.values = found;
}

// Finds the positive class and the labels by the name of the only column of a probability.
void FindPositiveClass(const std::string& source, bool labels_elsewhere,
                       std::span<const std::string> names, ColumnPlan& plan) {
  const std::vector<std::size_t> found = NamedProbabilities(names, plan.values);
  if (found.size() != 1) return;
  const bool has_labels = labels_elsewhere || !plan.truths.empty();
  if (plan.values.size() != (has_labels ? 1 : 2)) return;
  if (!has_labels) {
    plan.truths = {plan.values[0] == found[0] ? plan.values[1] : plan.values[0]};
    plan.values = found;
  }
  plan.positive_class = ClassOfProbability(names[found[0]]);
  plan.note =
      absl::StrCat(source, ": ", Quote(names[found[0]]),
                   " is read as the probability of the class ", Quote(plan.positive_class),
                   has_labels ? "" : ", and " + Quote(names[plan.truths[0]]) + " as the labels");
}

// Takes the class names from the columns. Columns whose names end in the numbers of the classes are
// taken in the order of the numbers.
absl::Status NameClasses(const std::optional<int>& label_base, const std::string& source,
                         std::vector<std::string> names, ColumnPlan& plan) {
  RemoveUsualPrefix(names);
  if (const auto order = OrderByNumber(names)) {
    names = InOrder(names, *order);
    plan.values = InOrder(plan.values, *order);
  }
  const bool all_numeric = std::ranges::all_of(names, IsNumber);
  if (label_base.has_value() && all_numeric &&
      (!AreNumbers(names) || names[0] != absl::StrCat(*label_base))) {
    return FileError(source, absl::StrCat("the columns are named ", ListNames(names),
                                          ", which contradicts --label-base ", *label_base,
                                          "; leave it out to match the labels to these names"));
  }
  plan.value_names = std::move(names);
  return absl::OkStatus();
}

// Orders the class columns of the plan by the class names, or takes the names from the columns.
// names: names of the class columns, in the order of the plan.
absl::Status MatchClasses(const ColumnExpectation& expectation, const std::string& source,
                          const std::vector<std::string>& names, ColumnPlan& plan) {
  CALIBD_RETURN_IF_ERROR(CheckNames(source, names, plan));
  const std::span<const std::string> expected = expectation.class_names;
  if (expected.empty()) return NameClasses(expectation.label_base, source, names, plan);
  plan.value_names.assign(expected.begin(), expected.end());
  const std::vector<std::vector<std::size_t>> found = FindClasses(names, expected);
  if (found.size() > 1) {
    return FileError(source, absl::StrCat("has two columns for each class, such as ",
                                          ListNames(InOrder(names, found[0])), " and ",
                                          ListNames(InOrder(names, found[1])),
                                          "; leave one out of each two with --drop-column"));
  }
  if (found.size() == 1) {
    const std::vector<std::string> unused = Without(names, InOrder(names, found[0]));
    plan.values = InOrder(plan.values, found[0]);
    if (!unused.empty()) {
      plan.note = absl::StrCat(source, ": the ", unused.size() == 1 ? "column " : "columns ",
                               ListNames(unused), unused.size() == 1 ? " is" : " are",
                               " not read, because every class has another column");
    }
    return absl::OkStatus();
  }
  const auto order = OrderByNumber(names);
  if (order.has_value() && names.size() == expected.size()) {
    plan.values = InOrder(plan.values, *order);
    plan.note = absl::StrCat(source, ": the columns ", ListNames(InOrder(names, *order)),
                             " are used as the classes ", ListNames(expected),
                             " in the order of their numbers");
    return absl::OkStatus();
  }
  return FileError(source, DescribeMismatch(names, expected));
}

}  // namespace

std::string DelimiterHint(std::span<const std::string> names) {
  if (names.size() != 1) return "";
  return names[0].find(' ') == std::string::npos
             ? "; if the columns are not separated by commas, use --delimiter"
             : "; if spaces separate the columns, use --delimiter ' '";
}

absl::StatusOr<char> ParseDelimiter(const std::string& text) {
  if (text == "tab" || text == "\\t") return '\t';
  if (text.size() == 1 && text != "\"" && text != "\n" && text != "\r") return text[0];
  return UsageFault(absl::StrCat("--delimiter is ", Quote(text),
                                 ", expected one character such as ; or the word tab"));
}

bool HoldsNames(const ColumnOptions& options, const UsualNames& usual,
                std::span<const std::string_view> first_row) {
  if (options.header.has_value()) return *options.header;
  const std::vector<std::string> names(first_row.begin(), first_row.end());
  const auto is_name = [](const std::string& cell) {
    return !IsNumber(cell) && !IsMissing(cell) && HintAtNotation(cell).empty();
  };
  const auto is_stated = [&](const std::string& stated) {
    return is_name(stated) && std::find(names.begin(), names.end(), stated) != names.end();
  };
  const std::string stated[] = {StatedOr(options.label, usual.truth),
                                StatedOr(options.id, usual.id), StatedOr(options.time, usual.time),
                                StatedOr(options.group, usual.group), options.predictions};
  if (std::ranges::all_of(names, is_name) || std::ranges::any_of(stated, is_stated) ||
      std::ranges::any_of(options.dropped, is_stated) ||
      std::ranges::any_of(options.features, is_stated)) {
    return true;
  }
  // The index of pandas has no name.
  const std::span<const std::string> rest = std::span(names).subspan(1);
  return names[0].empty() && !rest.empty() && std::ranges::all_of(rest, is_name);
}

absl::StatusOr<bool> IsHeader(const ColumnOptions& options, const std::string& source,
                              std::span<const std::string_view> first_row, std::string& note) {
  if (options.header.has_value()) return *options.header;
  if (HoldsNames(options, {}, first_row)) return true;
  const std::vector<std::string> names(first_row.begin(), first_row.end());
  // The index of pandas has no name.
  if (names[0].empty() && names.size() > 1 && AreNumbers(std::span(names).subspan(1))) return true;
  // From 11 columns on, programs that sort names as texts write 0,1,10,2.
  constexpr std::size_t kSortedAsTexts = 11;
  const auto is_digits = [](const std::string& name) {
    return !name.empty() && std::ranges::all_of(name, [](char c) { return c >= '0' && c <= '9'; });
  };
  const bool sorted_as_texts = names.size() >= kSortedAsTexts &&
                               std::ranges::all_of(names, is_digits) &&
                               OrderByNumber(names).has_value();
  if (names[0] != "0" || !(AreNumbers(names) || sorted_as_texts)) return false;
  const std::string found = absl::StrCat("the first line holds ", ListNames(names));
  // Probabilities are at most 1.
  if (names.size() > 2) {
    return FileError(source,
                     found +
                         ", which may be the column names that pandas writes: say --header if "
                         "they are names, or --no-header if they are values");
  }
  note = absl::StrCat(source, ": ", found,
                      ", read as a prediction; say --header if these are the column names that "
                      "pandas writes");
  return false;
}

absl::StatusOr<std::size_t> FindColumn(const std::string& source, const char* option,
                                       const std::string& stated,
                                       std::span<const std::string> names,
                                       std::size_t column_count) {
  if (names.empty()) {
    std::size_t number = 0;
    const char* const end = stated.data() + stated.size();
    const auto [parsed, error] = std::from_chars(stated.data(), end, number);
    if (error == std::errc() && parsed == end && number >= 1 && number <= column_count) {
      return number - 1;
    }
    return FileError(source,
                     absl::StrCat(option, " is ", Quote(stated), ", expected 1..", column_count,
                                  "; a column has a name only if the first line is a header "
                                  "(--header)"));
  }
  const auto found = std::find(names.begin(), names.end(), stated);
  if (found != names.end()) return static_cast<std::size_t>(found - names.begin());
  return FileError(source,
                   absl::StrCat(option, " is ", Quote(stated), ", expected one of the columns ",
                                ListNames(names), DelimiterHint(names)));
}

absl::StatusOr<ColumnPlan> AssignColumns(const ColumnOptions& options, const UsualNames& usual,
                                         bool truths_elsewhere, const std::string& source,
                                         std::span<const std::string> names,
                                         std::size_t column_count,
                                         std::span<const std::size_t> predictions) {
  ColumnPlan plan;
  plan.column_count = column_count;
  plan.names.assign(names.begin(), names.end());
  std::vector<bool> taken(column_count, false);
  if (!names.empty() && names[0].empty()) taken[0] = true;
  const auto take = [&](const char* option, const std::string& stated, std::string_view usual_name,
                        std::optional<std::size_t>& column) {
    const bool usual_exists =
        !usual_name.empty() && std::ranges::find(names, usual_name) != names.end() &&
        std::ranges::find(options.dropped, usual_name) == options.dropped.end();
    if (stated.empty() && !usual_exists) return absl::OkStatus();
    CALIBD_ASSIGN_OR_RETURN(
        column, FindColumn(source, option, StatedOr(stated, usual_name), names, column_count));
    taken[*column] = true;
    return absl::OkStatus();
  };
  std::optional<std::size_t> truth;
  CALIBD_RETURN_IF_ERROR(
      take("--label-column", truths_elsewhere ? "" : options.label, usual.truth, truth));
  if (truth.has_value() && !truths_elsewhere) plan.truths = {*truth};
  CALIBD_RETURN_IF_ERROR(take("--id-column", options.id, usual.id, plan.id));
  CALIBD_RETURN_IF_ERROR(take("--time-column", options.time, usual.time, plan.time));
  CALIBD_RETURN_IF_ERROR(take("--group-column", options.group, usual.group, plan.group));
  std::optional<std::size_t> other;
  for (const std::string& stated : options.dropped) {
    if (options.may_lack_dropped && std::ranges::find(names, stated) == names.end()) continue;
    CALIBD_RETURN_IF_ERROR(take("--drop-column", stated, "", other));
  }
  for (const std::string& stated : options.features) {
    CALIBD_RETURN_IF_ERROR(take(options.feature_option, stated, "", other));
    plan.features.push_back(*other);
  }
  if (!predictions.empty()) {
    for (const std::size_t column : predictions) {
      if (std::ranges::find(options.dropped, names[column]) == options.dropped.end()) {
        plan.values.push_back(column);
      }
    }
    return plan;
  }
  if (!options.predictions.empty() && !names.empty()) {
    CALIBD_RETURN_IF_ERROR(take("--predictions-key", options.predictions, "", other));
    plan.values = {*other};
    return plan;
  }
  for (std::size_t column = 0; column < column_count; ++column) {
    if (!taken[column]) plan.values.push_back(column);
  }
  return plan;
}

absl::StatusOr<ColumnPlan> PlanClasses(const ColumnOptions& options,
                                       const ColumnExpectation& expectation,
                                       const std::string& source,
                                       std::span<const std::string> names,
                                       std::size_t column_count) {
  CALIBD_ASSIGN_OR_RETURN(ColumnPlan plan,
                          AssignColumns(options, expectation.usual, expectation.labels_elsewhere,
                                        source, names, column_count, expectation.predictions));
  if (expectation.labels_last) {
    plan.truths = {column_count - 1};
    std::erase(plan.values, column_count - 1);
  }
  if (plan.truths.empty() && !expectation.labels_elsewhere) {
    CALIBD_RETURN_IF_ERROR(RefuseSeveralLabels(source, names));
  }
  if (!names.empty() && !expectation.positive_class.empty()) {
    TakeOtherAsLabels(expectation, names, plan);
    FindPositiveColumn(expectation, source, names, plan);
  } else if (expectation.finds_positive_class && !names.empty() &&
             expectation.class_names.empty() && !expectation.labels_last &&
             !expectation.label_base.has_value()) {
    FindPositiveClass(source, expectation.labels_elsewhere, names, plan);
    if (!plan.positive_class.empty()) return plan;
  }
  std::vector<std::string> class_names;
  for (const std::size_t column : plan.values) {
    if (!names.empty()) class_names.push_back(names[column]);
  }
  const std::size_t classes = plan.values.size();
  if (!expectation.positive_class.empty()) {
    if (classes == 1) return plan;
    return FileError(
        source,
        absl::StrCat("has ", classes, " columns of probabilities, but --positive-class expects one",
                     names.empty() ? "" : ": ", ListNames(class_names),
                     names.empty() ? "" : "; --predictions-key names it", kColumnHint));
  }
  if (classes < 2) {
    return FileError(
        source, absl::StrCat("has ", convert::CountText(classes, "column"),
                             " of probabilities, expected one for each of 2 classes or "
                             "more; if the column is the probability of one of two classes, name "
                             "this class with --positive-class; if the columns are not separated "
                             "by commas, use --delimiter"));
  }
  if (!names.empty()) CALIBD_RETURN_IF_ERROR(MatchClasses(expectation, source, class_names, plan));
  return plan;
}

}  // namespace calibd::cli
