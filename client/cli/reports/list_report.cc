#include "client/cli/reports/list_report.h"

#include <algorithm>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/str_join.h"
#include "absl/strings/str_split.h"
#include "absl/strings/string_view.h"
#include "calibd/convert/text.h"
#include "client/cli/reports/report.h"

namespace calibd::cli {
namespace {

using convert::MinuteText;
using convert::Plain;
using convert::PowerOfTen;
using convert::ShortName;

constexpr std::size_t kGap = 2;
// What the verdict needs for a time in one line, and the error for an interval with its unit.
constexpr std::size_t kLeastVerdict = 20;
constexpr std::size_t kLeastError = 30;

struct Column {
  std::string name;
  // A cell for each model.
  std::vector<std::string> cells;
  bool is_text = false;
  std::size_t width = 0;
};

// Number of characters of a UTF-8 text.
std::size_t Length(absl::string_view text) {
  return static_cast<std::size_t>(
      std::ranges::count_if(text, [](char c) { return (c & 0xC0) != 0x80; }));
}

// Breaks a text at spaces into lines of at most `width` characters, and longer words anywhere.
std::vector<std::string> Wrap(absl::string_view text, std::size_t width) {
  std::vector<std::string> lines = {""};
  for (absl::string_view word : absl::StrSplit(text, ' ')) {
    if (!lines.back().empty()) {
      if (Length(lines.back()) + 1 + Length(word) <= width) {
        absl::StrAppend(&lines.back(), " ", word);
        continue;
      }
      lines.emplace_back();
    }
    while (Length(word) > width) {
      std::size_t end = 0;
      for (std::size_t taken = 0; taken < width; ++taken) {
        ++end;
        while ((word[end] & 0xC0) == 0x80) ++end;
      }
      lines.back() = std::string(word.substr(0, end));
      lines.emplace_back();
      word.remove_prefix(end);
    }
    lines.back() = std::string(word);
  }
  return lines;
}

// The number of active alarms, "a" for an acknowledged error, and "w" for a warning: "2", "a",
// "2 a w" or empty.
std::string AlarmsCell(const v1::ListVerdictsResponse::ModelVerdict& model) {
  std::vector<std::string> marks;
  if (!model.alarms().empty()) marks.push_back(absl::StrCat(model.alarms_size()));
  if (model.verdict().is_acknowledged() || model.error().has_since_acknowledgement()) {
    marks.emplace_back("a");
  }
  if (model.reading().has_warning()) marks.emplace_back("w");
  return absl::StrJoin(marks, " ");
}

bool HasMarks(const v1::ListVerdictsResponse& response) {
  return std::ranges::any_of(response.models(),
                             [](const auto& model) { return !AlarmsCell(model).empty(); });
}

std::string Legend(const v1::ListVerdictsResponse& response, double false_discovery_rate) {
  return absl::StrCat(
      absl::StrFormat(
          "e-BH over the %d %s with evidence rejects %d (*): the expected share of calibrated "
          "models among them is at most %s %%.",
          response.tested_models(), response.tested_models() == 1 ? "model" : "models",
          response.rejected_models(), Number(100 * false_discovery_rate)),
      HasMarks(response) ? " Alarms: how many are active (calibctl alarms MODEL); a: an error over "
                           "the limit was acknowledged; w: a warning says why numbers may be "
                           "false (calibctl show MODEL)."
                         : "");
}

std::string BriefOf(const v1::ListVerdictsResponse::ModelVerdict& model) {
  const std::string brief = Plain(model.reading().how_bad().brief());
  return brief.empty() ? "-" : brief;
}

std::string EValueOf(const v1::ListVerdictsResponse::ModelVerdict& model) {
  return model.watch().has_evidence() ? PowerOfTen(model.watch().evidence().log10_e_value()) : "-";
}

std::string NewestRowOf(const v1::ListVerdictsResponse::ModelVerdict& model) {
  return model.has_last_observation_time() ? MinuteText(model.last_observation_time()) : "-";
}

constexpr std::size_t kAlarmsColumn = 3;
constexpr std::size_t kTestColumn = 4;

std::vector<Column> Columns(const v1::ListVerdictsResponse& response) {
  std::vector<Column> columns = {{.name = "model", .cells = {}, .is_text = true},
                                 {.name = "verdict", .cells = {}, .is_text = true},
                                 {.name = "error", .cells = {}, .is_text = true},
                                 {.name = "alarms", .cells = {}},
                                 {.name = "e-BH", .cells = {}},
                                 {.name = "rows", .cells = {}},
                                 {.name = "e-value", .cells = {}},
                                 {.name = "newest row", .cells = {}}};
  for (const auto& model : response.models()) {
    const std::string cells[] = {ShortName(model.model()),
                                 Plain(model.reading().verdict().text()),
                                 BriefOf(model),
                                 AlarmsCell(model),
                                 model.rejected_among_all() ? "*" : "",
                                 absl::StrCat(model.observations()),
                                 EValueOf(model),
                                 NewestRowOf(model)};
    for (std::size_t k = 0; k < columns.size(); ++k) columns[k].cells.push_back(cells[k]);
  }
  for (Column& column : columns) {
    column.width = Length(column.name);
    for (const std::string& cell : column.cells) {
      column.width = std::max(column.width, Length(cell));
    }
  }
  return columns;
}

std::size_t WidthOf(const std::vector<Column>& columns) {
  std::size_t width = kGap * (columns.size() - 1);
  for (const Column& column : columns) width += column.width;
  return width;
}

// Removes the last columns and narrows the others until they fit. Returns the names of the removed
// ones.
std::vector<std::string> Fit(std::size_t width, std::vector<Column>& columns) {
  Column& model = columns[0];
  model.width = std::min(model.width, width / 4);
  const auto narrowest = [&columns] {
    return WidthOf(columns) - columns[1].width - columns[2].width +
           std::min(columns[1].width, kLeastVerdict) + std::min(columns[2].width, kLeastError);
  };
  std::vector<std::string> removed;
  while (columns.size() > 3 && narrowest() > width) {
    removed.push_back(columns.back().name);
    columns.pop_back();
  }
  Column& verdict = columns[1];
  Column& error = columns[2];
  const std::size_t room = width - (WidthOf(columns) - verdict.width - error.width);
  if (verdict.width + error.width > room) {
    const std::size_t share = std::min(std::max(kLeastVerdict, room * 2 / 5), room / 2);
    verdict.width = std::min(verdict.width, std::max(share, room - std::min(room, error.width)));
    error.width = std::min(error.width, room - verdict.width);
  }
  return removed;
}

// Returns the lines of one row of the table. cells: one for each column.
std::string RowText(const std::vector<Column>& columns, const std::vector<std::string>& cells) {
  std::vector<std::vector<std::string>> wrapped;
  std::size_t height = 1;
  for (std::size_t k = 0; k < columns.size(); ++k) {
    wrapped.push_back(Wrap(cells[k], columns[k].width));
    height = std::max(height, wrapped.back().size());
  }
  std::string text;
  for (std::size_t i = 0; i < height; ++i) {
    std::string line;
    for (std::size_t k = 0; k < columns.size(); ++k) {
      const std::string cell = i < wrapped[k].size() ? wrapped[k][i] : "";
      const std::string padding(columns[k].width - std::min(columns[k].width, Length(cell)), ' ');
      absl::StrAppend(&line, k == 0 ? "" : std::string(kGap, ' '),
                      columns[k].is_text ? cell + padding : padding + cell);
    }
    absl::StrAppend(&text, line.substr(0, line.find_last_not_of(' ') + 1), "\n");
  }
  return text;
}

}  // namespace

std::string DescribeVerdicts(const v1::ListVerdictsResponse& response,
                             double false_discovery_rate) {
  if (response.models().empty()) return "no models\n";
  const bool has_marks = HasMarks(response);
  std::vector<std::vector<std::string>> rows = {
      {"model", "verdict", "rows", "error", "e-value", "newest row", "e-BH"}};
  if (has_marks) rows[0].insert(rows[0].begin() + 2, "alarms");
  for (const auto& model : response.models()) {
    rows.push_back({ShortName(model.model()), Plain(model.reading().verdict().text()),
                    absl::StrCat(model.observations()), BriefOf(model), EValueOf(model),
                    NewestRowOf(model), model.rejected_among_all() ? "*" : ""});
    if (has_marks) rows.back().insert(rows.back().begin() + 2, AlarmsCell(model));
  }
  return absl::StrCat(FormatTable(rows), Legend(response, false_discovery_rate), "\n");
}

std::string DescribeVerdictsWithin(std::size_t width, const v1::ListVerdictsResponse& response,
                                   double false_discovery_rate) {
  if (response.models().empty()) return "no models\n";
  std::vector<Column> columns = Columns(response);
  if (response.rejected_models() == 0) columns.erase(columns.begin() + kTestColumn);
  if (!HasMarks(response)) columns.erase(columns.begin() + kAlarmsColumn);
  const std::vector<std::string> removed = Fit(width, columns);
  const auto row = [&columns](const auto& cell_of) {
    std::vector<std::string> cells;
    cells.reserve(columns.size());
    for (const Column& column : columns) cells.push_back(cell_of(column));
    return RowText(columns, cells);
  };
  std::string text = row([](const Column& column) { return column.name; });
  for (std::size_t i = 0; i < columns[0].cells.size(); ++i) {
    text += row([i](const Column& column) { return column.cells[i]; });
  }
  std::string notes = Legend(response, false_discovery_rate);
  if (!removed.empty()) {
    absl::StrAppend(&notes, " Left out: ", absl::StrJoin(removed.rbegin(), removed.rend(), ", "),
                    "; `calibctl list --wide` shows all columns.");
  }
  return absl::StrCat(text, absl::StrJoin(Wrap(notes, width), "\n"), "\n");
}

}  // namespace calibd::cli
