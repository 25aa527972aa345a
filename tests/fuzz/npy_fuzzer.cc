// The readers of NumPy files: each input is read as predictions and as labels.
#include <cstdint>
#include <sstream>
#include <string>

#include "fuzz/require.h"
#include "npy_reader.h"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  using namespace calibd::cli;
  using ::calibd::testing::Require;
  const std::string file(reinterpret_cast<const char*>(data), size);
  std::istringstream input(file);
  const absl::StatusOr<Table> table = ReadNpy(input, "input");
  Require(table.ok() || absl::IsInvalidArgument(table.status()), "errors are INVALID_ARGUMENT");
  Require(!table.ok() || table->values.size() == table->row_count * table->column_count,
          "a table is rectangular");
  std::istringstream label_input(file);
  const auto labels = ReadNpyLabels(label_input, "input");
  Require(labels.ok() || absl::IsInvalidArgument(labels.status()), "errors are INVALID_ARGUMENT");
  Require(!(table.ok() && labels.ok()), "a file holds a matrix or a vector");
  return 0;
}
