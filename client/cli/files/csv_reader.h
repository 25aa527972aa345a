#ifndef CALIBD_CLIENT_CLI_FILES_CSV_READER_H_
#define CALIBD_CLIENT_CLI_FILES_CSV_READER_H_

#include <istream>
#include <optional>
#include <string>

#include "absl/status/status.h"
#include "client/cli/files/text_row.h"

namespace calibd::cli {

// Reads CSV as in RFC 4180: a cell may be in double quotes, in which a double quote is doubled, and
// may then contain delimiters and line ends. CRLF line ends and a UTF-8 byte order mark are
// accepted; blanks around a cell are left out. An empty line is a row of one empty cell. Memory:
// one row, of kMaxLineBytes at most. source: names the input in errors. delimiter: if unset, it is
// the first of a comma, a semicolon, a tab and a | that the first line has outside of quotes; a
// comma without one. Errors: InvalidArgument naming line and column, or the error of on_row.
[[nodiscard]] absl::Status ReadCsv(std::istream& input, const std::string& source,
                                   std::optional<char> delimiter, OnRow on_row);

}  // namespace calibd::cli

#endif  // CALIBD_CLIENT_CLI_FILES_CSV_READER_H_
