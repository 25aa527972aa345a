#ifndef CALIBD_CLI_CSV_READER_H_
#define CALIBD_CLI_CSV_READER_H_

#include <cstdint>
#include <istream>
#include <string>
#include <vector>

#include "absl/status/statusor.h"

namespace calibd::cli {

// A rectangular table of numbers.
struct Table {
  // row_count x column_count, row-major.
  std::vector<double> values;
  std::size_t row_count = 0;
  std::size_t column_count = 0;
  // row_count integers, or empty if the table was read without labels.
  std::vector<std::int64_t> labels;
};

struct CsvOptions {
  // The first line contains names and is skipped.
  bool header = false;
  // The last column contains labels, which are integers.
  bool last_column_is_label = false;
};

// Maximum number of characters in a line: 100000 classes with 40 characters each.
inline constexpr std::size_t kMaxCsvLineBytes = 4'000'000;

// Reads comma-separated decimal numbers, one row per line, every row with as many columns as the
// first. Numbers are converted to the nearest double, independent of the locale. Blanks around a
// number, CRLF line ends and a UTF-8 byte order mark are accepted. "nan" and "inf" are accepted as
// numbers here and left to validation. source: names the input in errors. Errors: InvalidArgument
// naming line and column (both from 1) and the text found there.
[[nodiscard]] absl::StatusOr<Table> ReadCsv(std::istream& input, const std::string& source,
                                            const CsvOptions& options = {});

// Reads one integer per line, by the same rules.
[[nodiscard]] absl::StatusOr<std::vector<std::int64_t>> ReadCsvLabels(std::istream& input,
                                                                      const std::string& source,
                                                                      bool header);

// Ids of predictions, 1 to kMaxIdBytes bytes each, and their labels.
struct LabelsById {
  std::vector<std::string> ids;
  std::vector<std::int64_t> labels;
};
inline constexpr std::size_t kMaxIdBytes = 128;

// Read one id per line, or one "id,integer" per line, by the same rules. An id may be in double
// quotes, in which a double quote is doubled. It must be quoted if it contains a comma or begins or
// ends with a blank.
[[nodiscard]] absl::StatusOr<std::vector<std::string>> ReadCsvIds(std::istream& input,
                                                                  const std::string& source,
                                                                  bool header);
[[nodiscard]] absl::StatusOr<LabelsById> ReadCsvLabelsById(std::istream& input,
                                                           const std::string& source, bool header);

}  // namespace calibd::cli

#endif  // CALIBD_CLI_CSV_READER_H_
