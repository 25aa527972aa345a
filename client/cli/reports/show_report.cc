#include "client/cli/reports/show_report.h"

#include <cstddef>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/str_replace.h"
#include "absl/strings/str_split.h"
#include "calibd/convert/text.h"
#include "client/cli/reports/forecast_report.h"
#include "client/cli/reports/report.h"
#include "google/protobuf/descriptor.h"

namespace calibd::cli {
namespace {

using convert::SignedFixed;

constexpr std::size_t kWidth = 100;
constexpr std::size_t kIndent = 10;

// Breaks the text at spaces into lines that begin in the same column.
std::string Wrap(const std::string& title, const std::string& text) {
  std::string lines;
  std::string line = absl::StrFormat("%-*s", kIndent, title);
  bool begins = true;
  for (const absl::string_view word : absl::StrSplit(text, ' ')) {
    if (!begins && line.size() + 1 + word.size() > kWidth) {
      absl::StrAppend(&lines, std::exchange(line, std::string(kIndent, ' ')), "\n");
      begins = true;
    }
    absl::StrAppend(&line, begins ? "" : " ", word);
    begins = false;
  }
  return absl::StrCat(lines, line, "\n");
}

}  // namespace

std::string DescribeReading(const std::string& name, const v1::Reading& reading) {
  std::string text;
  const google::protobuf::Descriptor& lines = *reading.GetDescriptor();
  for (int i = 0; i < lines.field_count(); ++i) {
    const google::protobuf::FieldDescriptor* const field = lines.field(i);
    if (!reading.GetReflection()->HasField(reading, field)) continue;
    const google::protobuf::Message& line = reading.GetReflection()->GetMessage(reading, field);
    const std::string words = convert::Plain(
        line.GetReflection()->GetString(line, line.GetDescriptor()->FindFieldByName("text")));
    const bool is_named = text.empty() && !name.empty();
    text += Wrap(absl::StrReplaceAll(field->name(), {{"_", " "}}),
                 is_named ? absl::StrCat(name, ": ", words) : words);
  }
  return text;
}

std::string DescribeShow(const v1::GetCalibrationResponse& response) {
  return DescribeReading(convert::ShortName(response.model()), response.reading());
}

namespace {

// Empty without observations. prediction and event: the names of their columns.
std::string BinTable(const google::protobuf::RepeatedPtrField<v1::HistoryBucket::Bin>& bins,
                     const char* prediction, const char* event) {
  std::vector<std::vector<std::string>> rows = {
      {prediction, "rows", "says %", event, "gap (points)"}};
  const double count = bins.size();
  for (int i = 0; i < bins.size(); ++i) {
    const v1::HistoryBucket::Bin& bin = bins[i];
    if (bin.observations() == 0) continue;
    rows.push_back({absl::StrFormat("%.3f to %.3f", i / count, (i + 1) / count),
                    absl::StrCat(bin.observations()),
                    absl::StrFormat("%.1f", 100 * bin.mean_confidence()),
                    absl::StrFormat("%.1f", 100 * bin.accuracy()),
                    SignedFixed(100 * (bin.mean_confidence() - bin.accuracy()), 1)});
  }
  return rows.size() == 1 ? "" : FormatTable(rows);
}

}  // namespace

std::string DescribeBins(const v1::GetCalibrationResponse& response) {
  if (response.has_forecast()) return DescribeCells(response);
  const v1::RunningScores& scores = response.scores();
  const std::string top_label = BinTable(scores.bins(), "confidence", "right %");
  if (top_label.empty()) return "no labelled row yet\n";
  const std::string class_1 =
      BinTable(scores.class_1_bins(), "probability of class 1", "class 1 %");
  return class_1.empty() ? top_label : absl::StrCat(top_label, "\n", class_1);
}

}  // namespace calibd::cli
