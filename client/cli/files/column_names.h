#ifndef CALIBD_CLIENT_CLI_FILES_COLUMN_NAMES_H_
#define CALIBD_CLIENT_CLI_FILES_COLUMN_NAMES_H_

#include <cstddef>
#include <optional>
#include <span>
#include <string>
#include <vector>

namespace calibd::cli {

// Programs that write one column for each class name them in many ways: cat, prob_cat, .pred_cat,
// prediction_0. A program that sorts names as texts puts prediction_10 before prediction_2. These
// functions find the columns by their names, whatever their order.

// Whether the names are 0, 1, ... or 1, 2, ...: the numbers of the classes in their order.
[[nodiscard]] bool AreNumbers(std::span<const std::string> names);

// Returns the indices of the names in the order of the numbers in which they end. Unset unless each
// name is the same text, which may be empty, and a whole number, and the n >= 2 numbers are 0..n-1
// or 1..n. Cost: O(n).
[[nodiscard]] std::optional<std::vector<std::size_t>> OrderByNumber(
    std::span<const std::string> names);

// Returns the indices of the names of the classes, in the order of the classes. A name is that of
// the class, or the same text for all classes before it; the first wins. Other names are left out.
// Empty if a class has no name. Several elements: there are several texts, such as prob_ and
// truth_. Cost: O(names x classes).
[[nodiscard]] std::vector<std::vector<std::size_t>> FindClasses(
    std::span<const std::string> names, std::span<const std::string> classes);

// Returns the indices of the names that end in the levels of quantiles, in the order of the levels:
// q0.1 or p10 is that of the level 0.1. Other names are left out. Empty unless each level has
// exactly one name. Cost: O(names x levels).
[[nodiscard]] std::vector<std::size_t> FindLevels(std::span<const std::string> names,
                                                  std::span<const double> levels);

// Returns the levels that the names end in, as shares, such as 0.05 for q0.05, q05 or p5. Empty
// unless each name ends in another number of the same kind: a share between 0 and 1, or after the
// same text a percentage. Numbers that count from 0 or 1 are no levels, nor is a number in the only
// name a percentage. Cost: O(n^2).
[[nodiscard]] std::vector<double> LevelsOf(std::span<const std::string> names);

// Removes a text such as prob_ or .pred_ with which all names begin, unless a name would be empty.
void RemoveUsualPrefix(std::span<std::string> names);

}  // namespace calibd::cli

#endif  // CALIBD_CLIENT_CLI_FILES_COLUMN_NAMES_H_
