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
  // row_count integers, or empty when the table was read without labels.
  std::vector<std::int64_t> labels;
};

struct CsvOptions {
  // The first line holds names and is skipped.
  bool header = false;
  // The last column holds labels: integers.
  bool last_column_is_label = false;
};

// Most characters of one line: 100000 classes with 40 characters each.
inline constexpr std::size_t kMaxCsvLineBytes = 4'000'000;

// Comma-separated decimal numbers, one row a line, every row with as many columns
// as the first. Text is converted to the nearest double, independent of the
// locale. Blanks around a number, CRLF line ends and a UTF-8 byte order mark are
// accepted; "nan" and "inf" are numbers here and left to validation.
// source: names the input in errors.
// Errors: InvalidArgument naming line and column (both from 1) and the text found there.
[[nodiscard]] absl::StatusOr<Table> ReadCsv(std::istream& input, const std::string& source,
                                            const CsvOptions& options = {});

// One integer a line, with the same rules.
[[nodiscard]] absl::StatusOr<std::vector<std::int64_t>> ReadCsvLabels(std::istream& input,
                                                                      const std::string& source,
                                                                      bool header);

// Ids of predictions, 1 to kMaxIdBytes bytes each, and their labels.
struct LabelsById {
  std::vector<std::string> ids;
  std::vector<std::int64_t> labels;
};
inline constexpr std::size_t kMaxIdBytes = 128;

// One id a line, and one "id,integer" a line, with the same rules. An id may stand in double
// quotes, with two for one within; with a comma or blanks around it, it has to.
[[nodiscard]] absl::StatusOr<std::vector<std::string>> ReadCsvIds(std::istream& input,
                                                                  const std::string& source,
                                                                  bool header);
[[nodiscard]] absl::StatusOr<LabelsById> ReadCsvLabelsById(std::istream& input,
                                                           const std::string& source, bool header);

}  // namespace calibd::cli

#endif  // CALIBD_CLI_CSV_READER_H_
