#include "server/intake/class_values.h"

#include <algorithm>

#include "absl/strings/str_cat.h"
#include "server/base/errors.h"

namespace calibd::server {

std::optional<std::vector<std::string>> ClassKeys(const nlohmann::json& row,
                                                  const AnswerClasses& classes) {
  if (!row.is_object() || classes.count == 0 || row.size() != classes.count) return std::nullopt;
  const auto has = [&](const std::string& key) { return row.contains(key); };
  std::vector<std::string> keys(classes.names.begin(), classes.names.end());
  if (!keys.empty() && std::ranges::all_of(keys, has)) return keys;
  keys.clear();
  for (std::size_t k = 0; k < classes.count; ++k) keys.push_back(absl::StrCat(k));
  if (std::ranges::all_of(keys, has)) return keys;
  return std::nullopt;
}

std::string DescribeClassKeys(const AnswerClasses& classes) {
  constexpr std::size_t kMostNames = 8;
  std::string text = absl::StrCat("the numbers 0..", classes.count - 1, " of the classes");
  if (classes.names.empty()) return text;
  text += ", or their names";
  for (std::size_t k = 0; k < std::min(classes.names.size(), kMostNames); ++k) {
    absl::StrAppend(&text, k > 0 ? ", " : " ", Quoted(classes.names[k]));
  }
  return classes.names.size() > kMostNames ? text + ", ..." : text;
}

}  // namespace calibd::server
