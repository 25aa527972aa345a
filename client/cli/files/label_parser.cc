#include "client/cli/files/label_parser.h"

#include <algorithm>
#include <charconv>
#include <cmath>
#include <iterator>

#include "absl/status/status.h"
#include "absl/strings/ascii.h"
#include "absl/strings/str_cat.h"
#include "client/cli/commands/command.h"
#include "client/cli/files/column_names.h"
#include "client/cli/files/text_row.h"

namespace calibd::cli {
namespace {

constexpr std::size_t kMaxNamesShown = 8;

// Returns the number of a label such as 3 or 3.0; unset for another text.
std::optional<std::int64_t> ParseNumber(std::string_view label) {
  std::int64_t integer = 0;
  const char* const end = label.data() + label.size();
  if (const auto [parsed, error] = std::from_chars(label.data(), end, integer);
      error == std::errc() && parsed == end) {
    return integer;
  }
  double number = 0;
  if (const auto [parsed, error] = std::from_chars(label.data(), end, number);
      error == std::errc() && parsed == end && std::abs(number) < 1e15 &&
      number == std::trunc(number)) {
    return static_cast<std::int64_t>(number);
  }
  return std::nullopt;
}

// Returns 1 for True and 0 for False, in any case; unset for another text.
std::optional<std::int64_t> ParseTruthValue(std::string_view label) {
  const std::string lower = absl::AsciiStrToLower(std::string(label.substr(0, 6)));
  if (lower == "true") return 1;
  if (lower == "false") return 0;
  return std::nullopt;
}

}  // namespace

std::string ListNames(std::span<const std::string> names) {
  std::string text;
  for (std::size_t i = 0; i < names.size() && i < kMaxNamesShown; ++i) {
    absl::StrAppend(&text, i > 0 ? ", " : "", Quote(names[i]));
  }
  if (names.size() > kMaxNamesShown) {
    absl::StrAppend(&text, ", and ", names.size() - kMaxNamesShown, " more");
  }
  return text;
}

absl::StatusOr<LabelParser> LabelParser::Create(const LabelOptions& options) {
  LabelParser parser(options);
  if (!options.base.has_value() && options.class_names.empty() &&
      !options.positive_class.has_value()) {
    return UsageFault(
        std::string(
            "--label-base is missing: use --label-base 0 if the first class is numbered 0 in the "
            "labels, or --label-base 1 if it is numbered 1. A wrong guess would shift every label "
            "by "
            "one class, so calibctl does not guess. Labels that are class names ") +
        std::string(options.names_need));
  }
  for (std::size_t k = 0; k < options.class_names.size(); ++k) {
    parser.classes_.emplace(options.class_names[k], static_cast<std::int32_t>(k));
  }
  return parser;
}

std::int64_t LabelParser::Find(std::string_view label) const {
  const auto from_base = [this](std::int64_t number) {
    return number >= *options_.base ? number - *options_.base : -1;
  };
  std::optional<std::int64_t> number = ParseNumber(label);
  if (options_.base.has_value() && number.has_value()) return from_base(*number);
  if (const auto found = classes_.find(std::string(label)); found != classes_.end()) {
    return found->second;
  }
  if (!number.has_value()) number = ParseTruthValue(label);
  if (!number.has_value()) return -1;
  if (options_.base.has_value()) return from_base(*number);
  if (const auto found = classes_.find(absl::StrCat(*number)); found != classes_.end()) {
    return found->second;
  }
  if (!options_.positive_class.has_value() || (*number != 0 && *number != 1)) return -1;
  return *number == 1 ? *options_.positive_class : 1 - *options_.positive_class;
}

std::string LabelParser::Expected(std::string_view label) const {
  if (options_.base.has_value()) {
    const int base = *options_.base;
    return absl::StrCat(base, "..", base + static_cast<std::int64_t>(options_.class_count) - 1,
                        " with --label-base ", base,
                        options_.class_names.empty()
                            ? "; class names " + std::string(options_.names_need)
                            : ", or one of the class names " + ListNames(options_.class_names));
  }
  if (options_.class_names.empty()) return "0, 1, True or False";
  std::string expected = "one of the class names " + ListNames(options_.class_names);
  const bool is_number = ParseNumber(label).has_value() || ParseTruthValue(label).has_value();
  if (is_number) expected += "; if the labels are class numbers, add --label-base 0 or 1";
  if (!options_.names_of_columns || IsMissing(label)) return expected;
  if (!is_number && AreNumbers(options_.class_names)) {
    return expected +
           ", which are the numbers of the columns: state the names of the classes in this order "
           "with --class-names";
  }
  return expected + "; if one of these columns is no class, leave it out with --drop-column";
}

absl::StatusOr<std::int32_t> LabelParser::Parse(std::string_view label) const {
  const std::int64_t found = Find(label);
  if (found >= 0 && found < static_cast<std::int64_t>(options_.class_count)) {
    return static_cast<std::int32_t>(found);
  }
  return absl::InvalidArgumentError(
      absl::StrCat(IsMissing(label) ? "the label is missing" : absl::StrCat("label ", Quote(label)),
                   ", expected ", Expected(label)));
}

}  // namespace calibd::cli
