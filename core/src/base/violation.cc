#include "calibd/core/violation.h"

#include <algorithm>
#include <array>
#include <charconv>

#include "absl/strings/str_cat.h"

namespace calibd {
namespace {

// Fields of a request that are lists with one entry for each row.
constexpr std::array<std::string_view, 5> kLists = {"labels", "outcomes", "prediction_ids",
                                                    "prediction_times", "group_values"};
constexpr std::string_view kRows = "rows";

bool IsList(std::string_view field) { return std::ranges::find(kLists, field) != kLists.end(); }

// Removes "[17]" from the front of the text and returns 17, if the text begins so.
std::optional<std::size_t> TakeIndex(std::string_view& text) {
  std::size_t index = 0;
  if (!text.starts_with('[')) return std::nullopt;
  const auto [end, error] = std::from_chars(text.data() + 1, text.data() + text.size(), index);
  if (error != std::errc() || end == text.data() + text.size() || *end != ']') return std::nullopt;
  text.remove_prefix(static_cast<std::size_t>(end - text.data()) + 1);
  return index;
}

}  // namespace

std::string PathOf(const Violation& violation) {
  const auto& [field, description, row, column] = violation;
  if (!row.has_value()) return field;
  if (!column.has_value() && IsList(field)) return absl::StrCat(field, "[", *row, "]");
  std::string path = absl::StrCat("rows[", *row, "].", field);
  if (column.has_value()) absl::StrAppend(&path, "[", *column, "]");
  return path;
}

Violation ParsePath(std::string_view path, std::string_view description) {
  Violation whole{std::string(path), std::string(description)};
  std::string_view rest = path;
  const std::string_view name = path.substr(0, path.find('['));
  rest.remove_prefix(name.size());
  Violation parsed{std::string(name), std::string(description), TakeIndex(rest)};
  if (!parsed.row.has_value()) return whole;
  if (IsList(name)) return rest.empty() ? parsed : whole;
  if (name != kRows || !rest.starts_with('.')) return whole;
  rest.remove_prefix(1);
  const std::string_view field = rest.substr(0, rest.find('['));
  rest.remove_prefix(field.size());
  parsed.field = field;
  parsed.column = TakeIndex(rest);
  return rest.empty() ? parsed : whole;
}

std::string DescribeViolations(std::span<const Violation> violations) {
  std::string text;
  for (const Violation& violation : violations) {
    absl::StrAppend(&text, text.empty() ? "" : "; ", PathOf(violation), " ", violation.description);
  }
  return text;
}

}  // namespace calibd
