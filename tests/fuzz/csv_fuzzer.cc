// The readers of CSV and JSON Lines. The first byte of an input selects the reader, the second one
// its options.
#include <cstdint>
#include <sstream>
#include <string>

#include "client/cli/files/csv_reader.h"
#include "client/cli/files/text_predictions.h"
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
  options.drop_invalid = (flags & 64U) != 0;
  options.columns.delimiter = (flags & 128U) != 0 ? ";" : ",";
  return options;
}

void CheckPredictions(std::istream& stream, FileFormat format, const InputOptions& options,
                      std::optional<std::int32_t> positive_class) {
  Input input;
  input.prediction_places.path = "input";
  const absl::Status status = ReadTextPredictions(stream, format, options, positive_class, input);
  RequireReason(status);
  if (!status.ok()) return;
  const std::size_t rows = input.prediction_places.lines.size();
  Require(rows > 0, "there are rows");
  Require(input.values.size() == rows * input.class_columns.size(), "a table is rectangular");
  for (const std::size_t count : {input.labels.size(), input.ids.size(), input.times.size()}) {
    Require(count == 0 || count == rows, "each row has its label, id and time");
  }
  for (const std::int32_t label : input.labels) {
    Require(label >= (options.drop_invalid ? -1 : 0), "a label is a class");
  }
}

void CheckOthers(unsigned reader, std::istream& stream, const InputOptions& options) {
  const auto parser = LabelParser::Create({.base = options.label_base,
                                           .class_names = options.class_names,
                                           .class_count = 2,
                                           .positive_class = {}});
  if (!parser.ok()) return;
  const FileFormat format = reader % 2 == 0 ? FileFormat::kCsv : FileFormat::kJsonLines;
  if (reader < 6) {
    Input input;
    input.label_places.path = "input";
    const absl::Status status = ReadTextLabels(stream, format, options, *parser, 3, input);
    RequireReason(status);
    Require(input.labels.size() == input.label_places.lines.size(), "each label has its line");
  } else if (reader < 8) {
    LabelFileOptions file_options;
    file_options.columns = options.columns;
    file_options.drop_invalid = options.drop_invalid;
    LabelsById file;
    file.places.path = "input";
    RequireReason(ReadTextLabelsById(stream, format, file_options, *parser, file));
    Require(file.ids.size() == file.labels.size(), "each id has its label");
  } else {
    RowPlaces places{.path = "input", .lines = {}};
    RequireReason(ReadTexts(stream, "id", options.columns, places).status());
  }
}

}  // namespace
}  // namespace calibd::cli

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  using namespace calibd::cli;
  if (size < 2) return 0;
  const unsigned reader = data[0] % 9U;
  const InputOptions options = Options(data[1]);
  std::istringstream stream(std::string(reinterpret_cast<const char*>(data + 2), size - 2));
  switch (reader) {
    case 0:
      CheckPredictions(stream, FileFormat::kCsv, options, std::nullopt);
      break;
    case 1:
      CheckPredictions(stream, FileFormat::kJsonLines, options, std::nullopt);
      break;
    case 2:
      CheckPredictions(stream, FileFormat::kCsv, options, 1);
      break;
    case 3:
      if (const auto format = DetectFormat(stream, "input"); !format.ok()) {
        RequireReason(format.status());
      }
      break;
    default:
      CheckOthers(reader, stream, options);
  }
  return 0;
}
