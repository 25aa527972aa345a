#ifndef CALIBD_CLI_NPY_READER_H_
#define CALIBD_CLI_NPY_READER_H_

#include <cstdint>
#include <istream>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "csv_reader.h"

namespace calibd::cli {

// True if the input begins like a NumPy file. Does not move the position of a seekable input.
[[nodiscard]] bool LooksLikeNpy(std::istream& input);

// Reads NumPy array files of format 1.0 and 2.0, little-endian, in C order. The header is not
// trusted: memory grows with the data that arrives. Errors: InvalidArgument saying what was found
// and what can be read.

// A matrix of float32 or float64.
[[nodiscard]] absl::StatusOr<Table> ReadNpy(std::istream& input, const std::string& source);

// A vector of 8, 16, 32 or 64 bit integers, signed or not.
[[nodiscard]] absl::StatusOr<std::vector<std::int64_t>> ReadNpyLabels(std::istream& input,
                                                                      const std::string& source);

}  // namespace calibd::cli

#endif  // CALIBD_CLI_NPY_READER_H_
