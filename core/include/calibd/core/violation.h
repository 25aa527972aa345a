#ifndef CALIBD_CORE_VIOLATION_H_
#define CALIBD_CORE_VIOLATION_H_

#include <cstddef>
#include <optional>
#include <span>
#include <string>
#include <string_view>

namespace calibd {

// Maximum number of violations that one validation reports.
inline constexpr std::size_t kMaxReportedViolations = 5;

// A violation of a constraint by an input. What shows it to a person renders its place: PathOf for
// a request, a line and a column for a file.
struct Violation {
  // The field without a place in it, such as "probabilities" or "model.monitoring.error_limit".
  std::string field;
  // The value that was found and the expected value, e.g. "is 7, expected [0, 3)".
  std::string description;
  // The row of the value from 0, and its column within the row from 0. Unset if the violation
  // concerns no single row or no single column.
  std::optional<std::size_t> row = std::nullopt;
  std::optional<std::size_t> column = std::nullopt;

  friend bool operator==(const Violation&, const Violation&) = default;
};

// The path of the value in a request: "rows[17].probabilities[2]", "rows[17].probabilities",
// "labels[17]" for a list with one entry for each row, or the field alone.
[[nodiscard]] std::string PathOf(const Violation& violation);

// The violation whose path PathOf returns. A path that names no row is the field as it is.
[[nodiscard]] Violation ParsePath(std::string_view path, std::string_view description);

// "path description; path description".
[[nodiscard]] std::string DescribeViolations(std::span<const Violation> violations);

}  // namespace calibd

#endif  // CALIBD_CORE_VIOLATION_H_
