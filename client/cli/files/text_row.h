#ifndef CALIBD_CLIENT_CLI_FILES_TEXT_ROW_H_
#define CALIBD_CLIENT_CLI_FILES_TEXT_ROW_H_

#include <cstddef>
#include <span>
#include <string>
#include <string_view>

#include "absl/functional/function_ref.h"
#include "absl/status/status.h"

namespace calibd::cli {

// A row of a text file. Its views are valid during the call that passes it.
struct TextRow {
  // The line at which the row begins, from 1.
  std::size_t line = 0;
  std::span<const std::string_view> cells;
  // The columns of a key that holds predictions, in the row with the names of JSON Lines.
  std::span<const std::size_t> predictions{};
};

// Receives the rows of a file in their order. An error that it returns ends the reading.
using OnRow = absl::FunctionRef<absl::Status(const TextRow& row)>;

// Maximum number of bytes in a line: 100000 classes with 40 characters each.
inline constexpr std::size_t kMaxLineBytes = 4'000'000;

// Whether a cell has no value: it is empty, or what pandas and others write for a missing one.
[[nodiscard]] bool IsMissing(std::string_view cell);

// Converts a number to the nearest double, independent of the locale. One that is too small for a
// double becomes 0. Returns false for a text that is not a number, or is one beyond a double.
[[nodiscard]] bool ParseDouble(std::string_view text, double& value);

// What to do about a number with a percent sign or a decimal comma, which ParseDouble refuses;
// empty for another text.
[[nodiscard]] std::string HintAtNotation(std::string_view text);

// The text in double quotes, escaped and shortened, for errors.
[[nodiscard]] std::string Quote(std::string_view text);

// The text as the value of an option in a command line: in quotes if a shell needs them.
[[nodiscard]] std::string OptionValue(std::string_view text);

// InvalidArgument "SOURCE: WHAT".
[[nodiscard]] absl::Status FileError(std::string_view source, std::string_view what);

// InvalidArgument "SOURCE line LINE, column COLUMN: WHAT". column: from 1.
[[nodiscard]] absl::Status CellError(std::string_view source, std::size_t line, std::size_t column,
                                     std::string_view what);

}  // namespace calibd::cli

#endif  // CALIBD_CLIENT_CLI_FILES_TEXT_ROW_H_
