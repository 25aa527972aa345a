#ifndef CALIBD_CLIENT_CLI_FILES_NPY_READER_H_
#define CALIBD_CLIENT_CLI_FILES_NPY_READER_H_

#include <cstdint>
#include <istream>
#include <string>
#include <vector>

#include "absl/status/statusor.h"

namespace calibd::cli {

// An array of one or two dimensions.
struct NpyArray {
  // row_count x column_count, row-major. Empty for an array of texts.
  std::vector<double> values;
  // row_count texts in UTF-8, for an array of texts in one column.
  std::vector<std::string> texts;
  // column_count is 1 for one dimension.
  std::size_t row_count = 0;
  std::size_t column_count = 0;
  // The values are truth values, 0 or 1.
  bool truth_values = false;
};

// Reads NumPy array files of format 1.0 and 2.0, little-endian, in C or Fortran order: float16,
// float32, float64, integers, truth values, and texts (<U) in one column. At least one row and
// column. The header is not trusted: memory grows with the data that arrives. Errors:
// InvalidArgument saying what was found, what can be read and how to convert it.
[[nodiscard]] absl::StatusOr<NpyArray> ReadNpy(std::istream& input, const std::string& source);

}  // namespace calibd::cli

#endif  // CALIBD_CLIENT_CLI_FILES_NPY_READER_H_
