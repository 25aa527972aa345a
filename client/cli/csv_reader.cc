#include "csv_reader.h"

#include <algorithm>
#include <charconv>
#include <optional>
#include <string_view>

#include "absl/status/status.h"
#include "absl/strings/escaping.h"
#include "absl/strings/str_cat.h"
#include "calibd/core/status_macros.h"

namespace calibd::cli {
namespace {

constexpr std::size_t kMaxQuotedBytes = 32;

std::string Quote(std::string_view text) {
  const std::string_view shown = text.substr(0, kMaxQuotedBytes);
  return absl::StrCat("\"", absl::CHexEscape(std::string(shown)),
                      shown.size() < text.size() ? "...\"" : "\"");
}

std::string_view Trim(std::string_view text) {
  const std::size_t first = text.find_first_not_of(" \t");
  if (first == std::string_view::npos) return {};
  return text.substr(first, text.find_last_not_of(" \t") - first + 1);
}

// Returns what is wrong with the text, if anything.
std::optional<std::string> ParseDouble(std::string_view text, double& value) {
  const char* const end = text.data() + text.size();
  const auto [parsed, error] = std::from_chars(text.data(), end, value);
  if (error == std::errc::result_out_of_range && parsed == end) {
    // A number that is too small for a double becomes 0; one that is too large is an error.
    if (text.find("e-") == std::string_view::npos && text.find("E-") == std::string_view::npos) {
      return Quote(text) + " is beyond the range of a double";
    }
    value = 0;
    return std::nullopt;
  }
  if (error != std::errc() || parsed != end) return Quote(text) + " is not a number";
  return std::nullopt;
}

std::optional<std::string> ParseInteger(std::string_view text, std::int64_t& value) {
  const char* const end = text.data() + text.size();
  const auto [parsed, error] = std::from_chars(text.data(), end, value);
  if (error != std::errc() || parsed != end) return Quote(text) + " is not an integer";
  return std::nullopt;
}

// The lines of the input with their numbers, without line ends and byte order mark.
class LineReader {
 public:
  LineReader(std::istream& input, const std::string& source) : input_(input), source_(source) {}

  // Returns false at the end of the input.
  absl::StatusOr<bool> Next() {
    line_.clear();
    // Reads character by character from the buffer: std::getline would load lines of any length.
    std::streambuf& buffer = *input_.rdbuf();
    int c = buffer.sbumpc();
    if (c == std::char_traits<char>::eof()) return false;
    ++number_;
    for (; c != std::char_traits<char>::eof() && c != '\n'; c = buffer.sbumpc()) {
      if (line_.size() == kMaxCsvLineBytes) {
        return absl::InvalidArgumentError(absl::StrCat(
            source_, " line ", number_, " is longer than ", kMaxCsvLineBytes, " characters"));
      }
      line_.push_back(static_cast<char>(c));
    }
    if (!line_.empty() && line_.back() == '\r') line_.pop_back();
    if (number_ == 1 && line_.starts_with("\xEF\xBB\xBF")) line_.erase(0, 3);
    return true;
  }

  [[nodiscard]] std::string_view line() const { return line_; }
  [[nodiscard]] std::size_t number() const { return number_; }

  [[nodiscard]] absl::Status Error(std::size_t column, std::string_view what) const {
    return absl::InvalidArgumentError(
        absl::StrCat(source_, " line ", number_, ", column ", column, ": ", std::string(what)));
  }

 private:
  std::istream& input_;
  const std::string& source_;
  std::string line_;
  std::size_t number_ = 0;
};

std::string_view HeaderHint(std::size_t line, bool header) {
  return line == 1 && !header ? " (if the first line holds names, say --header)" : "";
}

// Reads the id at the start of a line and returns its fault, if any. rest: the rest of the line.
std::optional<std::string> TakeId(std::string_view line, std::string& id, std::string_view& rest) {
  id.clear();
  const std::size_t first = std::min(line.find_first_not_of(" \t"), line.size());
  if (line.substr(first).starts_with('"')) {
    std::size_t at = first + 1;
    bool closed = false;
    for (; at < line.size() && !closed; ++at) {
      const bool quote = line[at] == '"';
      const bool doubled = quote && line.substr(at + 1).starts_with('"');
      closed = quote && !doubled;
      if (doubled) ++at;
      if (!closed) id.push_back(line[at]);
    }
    if (!closed) return "the quote is not closed";
    rest = Trim(line.substr(at));
    if (!rest.empty() && rest.front() != ',') return "the quoted id is followed by " + Quote(rest);
  } else {
    const std::size_t stop = std::min(line.find(','), line.size());
    id = Trim(line.substr(0, stop));
    rest = line.substr(stop);
  }
  if (!id.empty() && id.size() <= kMaxIdBytes) return std::nullopt;
  return absl::StrCat("the id is of ", id.size(), " bytes, expected 1 to ", kMaxIdBytes);
}

// take(reader, id, rest) processes one line and returns OK or an error.
template <typename Take>
absl::Status ForEachId(std::istream& input, const std::string& source, bool header,
                       const Take& take) {
  LineReader reader(input, source);
  if (header) {
    if (const auto more = reader.Next(); !more.ok()) return more.status();
  }
  std::string id;
  for (bool any = false;; any = true) {
    CALIBD_ASSIGN_OR_RETURN(const auto more, reader.Next());
    if (!more) {
      return any ? absl::OkStatus() : absl::InvalidArgumentError(source + " holds no rows");
    }
    std::string_view rest;
    if (const auto fault = TakeId(reader.line(), id, rest)) return reader.Error(1, *fault);
    CALIBD_RETURN_IF_ERROR(take(reader, id, rest));
  }
}

}  // namespace

absl::StatusOr<Table> ReadCsv(std::istream& input, const std::string& source,
                              const CsvOptions& options) {
  Table table;
  LineReader reader(input, source);
  if (options.header) {
    if (const auto more = reader.Next(); !more.ok()) return more.status();
  }
  std::size_t columns_expected = 0;
  for (;;) {
    CALIBD_ASSIGN_OR_RETURN(const auto more, reader.Next());
    if (!more) break;
    const std::string_view line = reader.line();
    const auto columns = static_cast<std::size_t>(std::count(line.begin(), line.end(), ',')) + 1;
    if (Trim(line).empty()) return reader.Error(1, "the line is empty, expected numbers");
    if (columns_expected == 0) columns_expected = columns;
    if (columns != columns_expected) {
      return reader.Error(
          std::min(columns, columns_expected),
          absl::StrCat("the line has ", columns, " columns, expected ", columns_expected));
    }
    std::size_t start = 0;
    for (std::size_t column = 1; column <= columns; ++column) {
      const std::size_t stop = std::min(line.find(',', start), line.size());
      const std::string_view text = Trim(line.substr(start, stop - start));
      start = stop + 1;
      std::optional<std::string> fault;
      if (options.last_column_is_label && column == columns) {
        std::int64_t label = 0;
        fault = ParseInteger(text, label);
        table.labels.push_back(label);
      } else {
        double value = 0;
        fault = ParseDouble(text, value);
        table.values.push_back(value);
      }
      if (fault.has_value()) {
        return reader.Error(column,
                            *fault + std::string(HeaderHint(reader.number(), options.header)));
      }
    }
    ++table.row_count;
  }
  if (table.row_count == 0) return absl::InvalidArgumentError(source + " holds no rows");
  table.column_count = columns_expected - (options.last_column_is_label ? 1 : 0);
  return table;
}

absl::StatusOr<std::vector<std::int64_t>> ReadCsvLabels(std::istream& input,
                                                        const std::string& source, bool header) {
  CALIBD_ASSIGN_OR_RETURN(const auto table,
                          ReadCsv(input, source, {.header = header, .last_column_is_label = true}));
  if (table.column_count != 0) {
    return absl::InvalidArgumentError(absl::StrCat(source, " has ", table.column_count + 1,
                                                   " columns, expected one label a line"));
  }
  return table.labels;
}

absl::StatusOr<std::vector<std::string>> ReadCsvIds(std::istream& input, const std::string& source,
                                                    bool header) {
  std::vector<std::string> ids;
  absl::Status status = ForEachId(
      input, source, header,
      [&](const LineReader& reader, const std::string& id, std::string_view rest) {
        if (!rest.empty()) {
          return reader.Error(
              2, "the line has more text, expected one id (in quotes if it contains a comma)");
        }
        ids.push_back(id);
        return absl::OkStatus();
      });
  if (!status.ok()) return status;
  return ids;
}

absl::StatusOr<LabelsById> ReadCsvLabelsById(std::istream& input, const std::string& source,
                                             bool header) {
  LabelsById result;
  absl::Status status = ForEachId(
      input, source, header,
      [&](const LineReader& reader, const std::string& id, std::string_view rest) {
        const auto columns = std::count(rest.begin(), rest.end(), ',') + 1;
        if (columns != 2) {
          return reader.Error(
              std::min<std::size_t>(static_cast<std::size_t>(columns), 2),
              absl::StrCat("the line has ", columns, " columns, expected two: an id and a label"));
        }
        std::int64_t label = 0;
        if (const auto fault = ParseInteger(Trim(rest.substr(1)), label)) {
          return reader.Error(2, *fault + std::string(HeaderHint(reader.number(), header)));
        }
        result.ids.push_back(id);
        result.labels.push_back(label);
        return absl::OkStatus();
      });
  if (!status.ok()) return status;
  return result;
}

}  // namespace calibd::cli
