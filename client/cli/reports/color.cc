#include "client/cli/reports/color.h"

#include <algorithm>
#include <utility>

#include "absl/strings/ascii.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_replace.h"
#include "calibd/v1/reading.pb.h"
#include "google/protobuf/descriptor.h"

namespace calibd::cli {
namespace {

constexpr std::string_view kRed = "\x1b[31m";
constexpr std::string_view kYellow = "\x1b[33m";
constexpr std::string_view kGreen = "\x1b[32m";
constexpr std::string_view kDim = "\x1b[2m";
constexpr std::string_view kPlain = "\x1b[0m";

// The statuses of verdicts and limits.
constexpr std::pair<std::string_view, std::string_view> kStatuses[] = {
    {"OVER_LIMIT", kRed},
    {"MISCALIBRATED", kRed},
    {"DRIFTED", kYellow},
    {"CHANGED", kYellow},
    {"STALE", kYellow},
    {"UNDECIDED", kYellow},
    {"INSUFFICIENT_DATA", kYellow},
    {"WITHIN_LIMIT", kGreen},
    {"NOT_REJECTED", kGreen},
    {"WARNING", kYellow}};
// The kinds of alarms, which stand in their table after the number of the alarm.
constexpr std::pair<std::string_view, std::string_view> kAlarms[] = {
    {"over_limit", kRed}, {"evidence", kRed}, {"drift", kYellow}, {"changed", kYellow}};

template <typename Table>
std::string_view ColorOf(std::string_view word, const Table& table) {
  const auto* const found =
      std::ranges::find(table, word, &std::pair<std::string_view, std::string_view>::first);
  return found == std::ranges::end(table) ? std::string_view() : found->second;
}

std::string Painted(std::string_view word, std::string_view color) {
  std::string text(color);
  text.append(word);
  if (!color.empty()) text.append(kPlain);
  return text;
}

bool IsOfWord(char c) { return absl::ascii_isalnum(static_cast<unsigned char>(c)) || c == '_'; }

// Paints the statuses of a line, or of the rest of one.
std::string PaintLine(std::string_view line) {
  std::string text;
  bool follows_number = false;
  for (auto begin = line.begin(); begin != line.end();) {
    const bool is_word = IsOfWord(*begin);
    const auto end =
        std::find_if(begin, line.end(), [&](char c) { return IsOfWord(c) != is_word; });
    const std::string_view part(&*begin, static_cast<std::size_t>(end - begin));
    std::string_view color = ColorOf(part, kStatuses);
    if (color.empty() && follows_number) color = ColorOf(part, kAlarms);
    // Only the number of an alarm may stand before its kind.
    if (is_word) {
      follows_number = begin == line.begin() && std::ranges::all_of(part, [](char c) {
                         return absl::ascii_isdigit(static_cast<unsigned char>(c));
                       });
    }
    text += Painted(part, color);
    begin = end;
  }
  return text;
}

// The title with which a line of a reading begins; empty for a line that continues another one.
std::string_view TitleOf(std::string_view line) {
  const google::protobuf::Descriptor& lines = *v1::Reading::descriptor();
  for (int i = 0; i < lines.field_count(); ++i) {
    const std::string title = absl::StrReplaceAll(lines.field(i)->name(), {{"_", " "}});
    if (line.substr(0, title.size()) == title && line.substr(title.size(), 1) == " ") {
      return line.substr(0, title.size());
    }
  }
  return {};
}

// Paints each line of the text by paint(line).
template <typename Paint>
std::string PaintLines(std::string_view text, const Paint& paint) {
  std::string painted;
  while (!text.empty()) {
    const std::size_t end = std::min(text.find('\n'), text.size());
    painted += paint(text.substr(0, end));
    if (end < text.size()) painted += '\n';
    text.remove_prefix(std::min(end + 1, text.size()));
  }
  return painted;
}

}  // namespace

std::string PaintStatuses(std::string_view text) { return PaintLines(text, PaintLine); }

std::string PaintReading(std::string_view text) {
  return PaintLines(text, [](std::string_view line) {
    const std::string_view title = TitleOf(line);
    return absl::StrCat(title.empty() ? "" : Painted(title, title == "warning" ? kYellow : kDim),
                        PaintLine(line.substr(title.size())));
  });
}

}  // namespace calibd::cli
