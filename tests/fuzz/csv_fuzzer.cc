// The readers of CSV. The first byte of an input selects the reader and its options.
#include <cstdint>
#include <sstream>
#include <string>

#include "csv_reader.h"
#include "fuzz/require.h"

namespace calibd::cli {
namespace {

using ::calibd::testing::Require;

template <typename Result>
void RequireReason(const Result& result) {
  Require(result.ok() || (absl::IsInvalidArgument(result.status()) &&
                          result.status().message().find("input") != std::string::npos),
          "an error is INVALID_ARGUMENT and names the input");
}

void CheckTable(std::istream& input, const CsvOptions& options) {
  const absl::StatusOr<Table> table = ReadCsv(input, "input", options);
  RequireReason(table);
  if (table.ok()) {
    Require(table->row_count > 0, "a table has rows");
    Require(table->values.size() == table->row_count * table->column_count,
            "a table is rectangular");
    Require(table->labels.size() == (options.last_column_is_label ? table->row_count : 0),
            "each row has its label");
  }
}

}  // namespace
}  // namespace calibd::cli

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  using namespace calibd::cli;
  if (size == 0) return 0;
  const bool header = (data[0] & 1U) != 0;
  std::istringstream input(std::string(reinterpret_cast<const char*>(data + 1), size - 1));
  switch (data[0] / 2 % 5) {
    case 0:
      CheckTable(input, {.header = header});
      break;
    case 1:
      CheckTable(input, {.header = header, .last_column_is_label = true});
      break;
    case 2:
      RequireReason(ReadCsvLabels(input, "input", header));
      break;
    case 3:
      RequireReason(ReadCsvIds(input, "input", header));
      break;
    default: {
      const auto labels = ReadCsvLabelsById(input, "input", header);
      RequireReason(labels);
      Require(!labels.ok() || labels->ids.size() == labels->labels.size(), "each id has its label");
    }
  }
  return 0;
}
