#include "client/cli/files/column_names.h"

#include <algorithm>
#include <charconv>
#include <cmath>
#include <cstdint>
#include <string_view>

#include "absl/container/flat_hash_map.h"
#include "absl/strings/str_cat.h"
#include "client/cli/files/text_row.h"

namespace calibd::cli {
namespace {

// What programs write before the name of a class: tidymodels .pred_, and others by hand. The longer
// of two that begin alike comes first.
constexpr std::string_view kUsualPrefixes[] = {".pred_",         "prediction_", "probability_",
                                               "predict_proba_", "proba_",      "prob_",
                                               "pred_",          "score_"};

// Returns the longest end of the name with these characters.
std::string_view EndOf(std::string_view name, std::string_view characters) {
  const std::size_t last = name.find_last_not_of(characters);
  return last == std::string_view::npos ? name : name.substr(last + 1);
}

// Returns the only index of a name that ends in this number; unset without one, and if there are
// several.
std::optional<std::size_t> FindNumber(std::span<const std::string> names, double number) {
  // Levels such as 0.3 and 30 / 100 differ by rounding.
  constexpr double kRounding = 1e-9;
  std::optional<std::size_t> found;
  for (std::size_t i = 0; i < names.size(); ++i) {
    double value = 0;
    if (!ParseDouble(EndOf(names[i], "0123456789."), value)) continue;
    if (std::abs(value - number) > kRounding * std::max(1.0, number)) continue;
    if (found.has_value()) return std::nullopt;
    found = i;
  }
  return found;
}

}  // namespace

bool AreNumbers(std::span<const std::string> names) {
  if (names.empty() || (names[0] != "0" && names[0] != "1")) return false;
  for (std::size_t k = 0; k < names.size(); ++k) {
    if (names[k] != absl::StrCat(k + (names[0] == "1" ? 1 : 0))) return false;
  }
  return true;
}

std::optional<std::vector<std::size_t>> OrderByNumber(std::span<const std::string> names) {
  const std::size_t n = names.size();
  if (n < 2) return std::nullopt;
  // By number: the index of its name, plus 1.
  std::vector<std::size_t> by_number(n + 1, 0);
  std::string_view text;
  for (std::size_t i = 0; i < n; ++i) {
    const std::string_view name = names[i];
    const std::string_view digits = EndOf(name, "0123456789");
    const std::string_view before = name.substr(0, name.size() - digits.size());
    if (i == 0) text = before;
    std::size_t number = 0;
    const auto [parsed, error] =
        std::from_chars(digits.data(), digits.data() + digits.size(), number);
    if (digits.empty() || error != std::errc() || number > n || before != text ||
        by_number[number] != 0) {
      return std::nullopt;
    }
    by_number[number] = i + 1;
  }
  // n different numbers in 0..n: one is missing, which has to be the first or the last.
  const std::size_t first = by_number[0] != 0 ? 0 : 1;
  std::vector<std::size_t> order;
  for (std::size_t number = first; number < first + n; ++number) {
    if (by_number[number] == 0) return std::nullopt;
    order.push_back(by_number[number] - 1);
  }
  return order;
}

std::vector<std::vector<std::size_t>> FindClasses(std::span<const std::string> names,
                                                  std::span<const std::string> classes) {
  std::vector<std::vector<std::size_t>> all;
  if (classes.empty()) return all;
  absl::flat_hash_map<std::string, std::size_t> by_name;
  for (std::size_t i = 0; i < names.size(); ++i) by_name.emplace(names[i], i);
  const auto find = [&](std::string_view prefix) {
    std::vector<std::size_t> found;
    for (const std::string& name : classes) {
      const auto at = by_name.find(absl::StrCat(std::string(prefix), name));
      if (at == by_name.end()) return;
      found.push_back(at->second);
    }
    all.push_back(std::move(found));
  };
  find("");
  if (!all.empty()) return all;
  for (const std::string& name : names) {
    if (!name.ends_with(classes[0]) || name.size() == classes[0].size()) continue;
    find(std::string_view(name).substr(0, name.size() - classes[0].size()));
  }
  return all;
}

std::vector<std::size_t> FindLevels(std::span<const std::string> names,
                                    std::span<const double> levels) {
  for (const double scale : {1.0, 100.0}) {
    std::vector<std::size_t> found;
    for (const double level : levels) {
      if (const auto index = FindNumber(names, scale * level)) found.push_back(*index);
    }
    if (found.size() == levels.size()) return found;
  }
  return {};
}

std::vector<double> LevelsOf(std::span<const std::string> names) {
  if (names.empty() || OrderByNumber(names).has_value()) return {};
  std::vector<double> numbers;
  for (const std::string& name : names) {
    double value = 0;
    if (!ParseDouble(EndOf(name, "0123456789."), value) || value <= 0 || value >= 100) return {};
    if (std::ranges::find(numbers, value) != numbers.end()) return {};
    numbers.push_back(value);
  }
  const auto is_share = [](double value) { return value < 1; };
  if (std::ranges::all_of(numbers, is_share)) return numbers;
  if (numbers.size() < 2 || std::ranges::any_of(numbers, is_share)) return {};
  const auto before = [](std::string_view name) {
    return name.substr(0, name.size() - EndOf(name, "0123456789.").size());
  };
  const auto differs = [&](const std::string& name) { return before(name) != before(names[0]); };
  if (std::ranges::any_of(names, differs)) return {};
  for (double& number : numbers) number /= 100;
  return numbers;
}

void RemoveUsualPrefix(std::span<std::string> names) {
  for (const std::string_view prefix : kUsualPrefixes) {
    const auto has_it = [&](const std::string& name) {
      return name.size() > prefix.size() && name.starts_with(prefix);
    };
    if (!std::ranges::all_of(names, has_it)) continue;
    for (std::string& name : names) name.erase(0, prefix.size());
    return;
  }
}

}  // namespace calibd::cli
