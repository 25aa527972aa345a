#ifndef CALIBD_CLIENT_CLI_FILES_JSON_LINES_READER_H_
#define CALIBD_CLIENT_CLI_FILES_JSON_LINES_READER_H_

#include <istream>
#include <span>
#include <string>
#include <string_view>

#include "absl/status/status.h"
#include "client/cli/files/text_row.h"

namespace calibd::cli {

// Reads JSON Lines: one object on each line, all with the same keys in any order. The first row
// passes the names of the columns and those of the key in `nested`, and each later row the cells of
// one object. A key is a column.
// One of the keys `nested` may instead hold an array, whose elements are columns named 0, 1, ...,
// or an object, whose keys are columns. Other values that are arrays or objects are empty cells.
//
// Cells are texts: numbers as they are written, true as "True", and null or a missing key as an
// empty cell. Memory: one line, of kMaxLineBytes at most. Errors: InvalidArgument naming the line,
// or the error of on_row.
[[nodiscard]] absl::Status ReadJsonLines(std::istream& input, const std::string& source,
                                         std::span<const std::string> nested, OnRow on_row);

}  // namespace calibd::cli

#endif  // CALIBD_CLIENT_CLI_FILES_JSON_LINES_READER_H_
