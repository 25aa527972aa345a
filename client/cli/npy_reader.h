#ifndef CALIBD_CLI_NPY_READER_H_
#define CALIBD_CLI_NPY_READER_H_

#include <cstdint>
#include <istream>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "csv_reader.h"

namespace calibd::cli {

// True when the input starts as a NumPy file does. Does not move the position of
// a seekable input.
[[nodiscard]] bool LooksLikeNpy(std::istream& input);

// NumPy array files, format 1.0 and 2.0, little-endian, C order.
// Nothing is trusted: memory is taken as data arrives, not as the header claims.
// Errors: InvalidArgument saying what is there and what is read.

// A matrix of float32 or float64.
[[nodiscard]] absl::StatusOr<Table> ReadNpy(std::istream& input, const std::string& source);

// A vector of 8, 16, 32 or 64 bit integers, signed or not.
[[nodiscard]] absl::StatusOr<std::vector<std::int64_t>> ReadNpyLabels(std::istream& input,
                                                                      const std::string& source);

}  // namespace calibd::cli

#endif  // CALIBD_CLI_NPY_READER_H_
