// The readers of CSV and JSON Lines. The first byte of an input selects the reader, the second one
// its options.
#include <cstdint>
#include <memory>
#include <sstream>
#include <string>
#include <utility>

#include "client/cli/files/labels_by_id.h"
#include "client/cli/files/prediction_file.h"
#include "fuzz/require.h"

namespace calibd::cli {
namespace {

using ::calibd::testing::Require;

const std::vector<std::string> kNames = {"a", "b"};

void RequireReason(const absl::Status& status) {
  Require(status.ok() || absl::IsInvalidArgument(status), "an error is INVALID_ARGUMENT");
  // A usage fault is about the options.
  Require(status.ok() || status.message().find("input") != std::string::npos ||
              status.message().find("--") != std::string::npos,
          "an error names the input or an option");
}

InputOptions Options(unsigned flags) {
  InputOptions options;
  options.predictions = "input";
  if ((flags & 1U) != 0) options.columns.header = (flags & 2U) != 0;
  if ((flags & 4U) != 0) options.label_base = 0;
  if ((flags & 8U) != 0) options.class_names = kNames;
  if ((flags & 16U) != 0) options.columns.label = (flags & 2U) != 0 ? "label" : "3";
  if ((flags & 32U) != 0) {
    options.columns.time = "1";
    options.columns.id = "2";
    options.columns.dropped = {"4"};
  }
  options.columns.drop_invalid = (flags & 64U) != 0;
  options.columns.delimiter = (flags & 128U) != 0 ? ";" : ",";
  return options;
}

InputFile Open(std::string text, FileFormat format) {
  return {.stream = std::make_unique<std::istringstream>(std::move(text)),
          .path = "input",
          .name = "input",
          .format = format};
}

void CheckPredictions(InputFile file, const InputOptions& options) {
  const auto input = ReadInput(options, file);
  RequireReason(input.status());
  if (!input.ok()) return;
  const std::size_t rows = input->row_count;
  Require(rows > 0 && input->places.lines.size() == rows, "each row has its line");
  Require(input->values.size() == rows * input->class_count, "a table is rectangular");
  for (const std::size_t count : {input->labels.size(), input->ids.size(), input->times.size()}) {
    Require(count == 0 || count == rows, "each row has its label, id and time");
  }
  for (const std::int32_t label : input->labels) {
    Require(label >= (options.columns.drop_invalid ? -1 : 0), "a label is a class");
  }
}

void CheckLabels(InputFile file, const InputOptions& options) {
  Table table;
  table.row_count = 3;
  const auto parse = [&](std::string_view text) -> absl::StatusOr<double> {
    if (text == "1") return 1;
    return absl::InvalidArgumentError("no label");
  };
  RequireReason(ReadTruthFile(file, options.columns, "label", parse, table));
}

void CheckLabelsById(InputFile file, const InputOptions& options) {
  LabelFileOptions file_options;
  file_options.columns = options.columns;
  file_options.label_base = options.label_base;
  const auto labels = ReadLabelFile(file_options, options.class_names, 2, file);
  RequireReason(labels.status());
  if (!labels.ok()) return;
  Require(labels->ids.size() == labels->labels.size(), "each id has its label");
}

}  // namespace
}  // namespace calibd::cli

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  using namespace calibd::cli;
  if (size < 2) return 0;
  const unsigned reader = data[0] % 8U;
  InputOptions options = Options(data[1]);
  std::string text(reinterpret_cast<const char*>(data + 2), size - 2);
  const FileFormat format = reader % 2 == 0 ? FileFormat::kCsv : FileFormat::kJsonLines;
  switch (reader) {
    case 0:
    case 1:
      CheckPredictions(Open(std::move(text), format), options);
      break;
    case 2:
      options.positive_class = "1";
      CheckPredictions(Open(std::move(text), format), options);
      break;
    case 3: {
      std::istringstream stream(text);
      RequireReason(DetectFormat(stream, "input").status());
      break;
    }
    case 4:
    case 5:
      CheckLabels(Open(std::move(text), format), options);
      break;
    default:
      CheckLabelsById(Open(std::move(text), format), options);
  }
  return 0;
}
