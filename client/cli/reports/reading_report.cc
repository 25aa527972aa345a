#include "client/cli/reports/reading_report.h"

#include <cstddef>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/str_replace.h"
#include "absl/strings/str_split.h"
#include "calibd/convert/text.h"
#include "client/cli/reports/report.h"
#include "google/protobuf/descriptor.h"

namespace calibd::cli {
namespace {

constexpr std::size_t kIndent = 10;

// Breaks the text at spaces into lines that begin in the same column.
std::string Wrap(const std::string& title, const std::string& text, std::size_t width) {
  std::string lines;
  std::string line = absl::StrFormat("%-*s", kIndent, title);
  bool begins = true;
  const std::vector<std::string> words = absl::StrSplit(text, ' ');
  for (const std::string& word : words) {
    if (!begins && convert::CountCharacters(line) + 1 + convert::CountCharacters(word) > width) {
      absl::StrAppend(&lines, std::exchange(line, std::string(kIndent, ' ')), "\n");
      begins = true;
    }
    absl::StrAppend(&line, begins ? "" : " ", word);
    begins = false;
  }
  return absl::StrCat(lines, line, "\n");
}

}  // namespace

std::string DescribeReading(const std::string& name, const v1::Reading& reading,
                            std::size_t width) {
  std::string text;
  const google::protobuf::Descriptor& lines = *reading.GetDescriptor();
  for (int i = 0; i < lines.field_count(); ++i) {
    const google::protobuf::FieldDescriptor* const field = lines.field(i);
    // The other fields are facts and no lines.
    if (field->message_type() == nullptr || !reading.GetReflection()->HasField(reading, field)) {
      continue;
    }
    const google::protobuf::Message& line = reading.GetReflection()->GetMessage(reading, field);
    const std::string words = convert::Plain(
        line.GetReflection()->GetString(line, line.GetDescriptor()->FindFieldByName("text")));
    const bool is_named = text.empty() && !name.empty();
    text += Wrap(absl::StrReplaceAll(field->name(), {{"_", " "}}),
                 is_named ? absl::StrCat(name, ": ", words) : words, width);
  }
  return text;
}

std::string DescribeTable(const v1::Table& table) {
  std::vector<std::vector<std::string>> lines(1);
  for (const std::string& title : table.columns()) lines[0].push_back(convert::Plain(title));
  for (const v1::Table::Row& row : table.rows()) {
    std::vector<std::string>& line = lines.emplace_back();
    for (const std::string& cell : row.cells()) line.push_back(convert::Plain(cell));
  }
  return absl::StrCat(FormatTable(lines), table.left_out() > 0
                                              ? absl::StrCat("... ", table.left_out(), " more\n")
                                              : "");
}

std::string DescribeShow(const v1::GetCalibrationResponse& response, std::size_t width) {
  return DescribeReading(convert::ShortName(response.model()), response.reading(), width);
}

}  // namespace calibd::cli
