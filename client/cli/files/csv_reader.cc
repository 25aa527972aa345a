#include "client/cli/files/csv_reader.h"

#include <algorithm>
#include <cstring>
#include <string_view>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/str_cat.h"
#include "calibd/core/status_macros.h"

namespace calibd::cli {
namespace {

constexpr std::size_t kReadBytes = std::size_t{1} << 18;

// Returns the delimiter of a line: the first of these that it has, outside of quotes and before its
// last text. A comma without one.
char FindDelimiter(std::string_view line) {
  const std::size_t last = line.find_last_not_of(" \t\r");
  line = line.substr(0, last == std::string_view::npos ? 0 : last + 1);
  for (const char delimiter : {',', ';', '\t', '|'}) {
    bool quoted = false;
    for (const char c : line) {
      if (c == '"') quoted = !quoted;
      if (c == delimiter && !quoted) return delimiter;
    }
  }
  return ',';
}

bool IsBlank(char c) { return c == ' ' || c == '\t' || c == '\r'; }

// Splits the input into rows. libcsv would do this too, but takes 1.6 times as long to read a file
// of predictions.
class CsvReader {
 public:
  CsvReader(std::istream& input, const std::string& source, std::optional<char> delimiter)
      : input_(input),
        source_(source),
        delimiter_(delimiter.value_or(',')),
        has_delimiter_(delimiter.has_value()) {}

  // Returns false at the end of the input.
  absl::StatusOr<bool> Next() {
    begin_ += length_;
    line_ += lines_;
    lines_ = 0;
    CALIBD_ASSIGN_OR_RETURN(std::size_t end, FindLineEnd(0));
    if (line_ == 1 && std::string_view(row(), end).starts_with("\xEF\xBB\xBF")) {
      begin_ += 3;
      end -= 3;
    }
    length_ = std::min(end + 1, Available());
    if (length_ == 0) return false;
    if (!has_delimiter_) {
      delimiter_ = FindDelimiter(std::string_view(row(), end));
      has_delimiter_ = true;
    }
    CALIBD_RETURN_IF_ERROR(Split(end));
    cells_.clear();
    for (const auto& [from, to] : places_) cells_.emplace_back(row() + from, to - from);
    return true;
  }

  [[nodiscard]] TextRow text_row() const { return {line_, cells_}; }

 private:
  [[nodiscard]] char* row() { return buffer_.data() + begin_; }
  [[nodiscard]] std::size_t Available() const { return buffer_.size() - begin_; }

  // Returns the end of the line that contains this place, both relative to the row. May move the
  // row to another address.
  absl::StatusOr<std::size_t> FindLineEnd(std::size_t from) {
    ++lines_;
    for (;;) {
      if (const void* const found = std::memchr(row() + from, '\n', Available() - from)) {
        return static_cast<std::size_t>(static_cast<const char*>(found) - row());
      }
      from = Available();
      if (from > kMaxLineBytes) {
        return absl::InvalidArgumentError(
            absl::StrCat(source_, " line ", line_, " is longer than ", kMaxLineBytes, " bytes",
                         lines_ > 1 ? " (a quote in it is not closed)" : ""));
      }
      if (!input_) return from;
      buffer_.erase(0, begin_);
      begin_ = 0;
      buffer_.resize(from + kReadBytes);
      input_.read(buffer_.data() + from, kReadBytes);
      buffer_.resize(from + static_cast<std::size_t>(input_.gcount()));
    }
  }

  // Finds the cells of the row, whose first line ends at `end`.
  absl::Status Split(std::size_t end) {
    places_.clear();
    const bool quotes = std::memchr(row(), '"', end) != nullptr;
    for (std::size_t at = 0;; ++at) {
      std::size_t from = at;
      if (quotes) {
        while (from < end && IsBlank(row()[from]) && row()[from] != delimiter_) ++from;
      }
      if (quotes && from < end && row()[from] == '"') {
        CALIBD_RETURN_IF_ERROR(TakeQuoted(from, at, end));
      } else {
        const void* const found = std::memchr(row() + at, delimiter_, end - at);
        const std::size_t stop =
            found == nullptr ? end
                             : static_cast<std::size_t>(static_cast<const char*>(found) - row());
        places_.push_back(Trim(at, stop));
        at = stop;
      }
      if (at == end) return absl::OkStatus();
    }
  }

  // Takes the quoted cell that begins at `from`, and removes its quotes where it is. at: is set to
  // its delimiter or the end of the row. end: moves to a later line if the cell contains line ends.
  absl::Status TakeQuoted(std::size_t from, std::size_t& at, std::size_t& end) {
    std::size_t to = from;
    for (at = from + 1;; ++at) {
      if (at == end) {
        if (end == Available()) return Error("the quote is not closed");
        CALIBD_ASSIGN_OR_RETURN(end, FindLineEnd(end + 1));
        length_ = std::min(end + 1, Available());
      }
      if (row()[at] == '"') {
        if (at + 1 == end || row()[at + 1] != '"') break;
        ++at;
      }
      row()[to++] = row()[at];
    }
    const std::size_t after = ++at;
    while (at < end && IsBlank(row()[at]) && row()[at] != delimiter_) ++at;
    if (at == end || row()[at] == delimiter_) {
      places_.emplace_back(from, to);
      return absl::OkStatus();
    }
    return Error("the closing quote is followed by " +
                 Quote(std::string_view(row() + after, end - after)) +
                 ", expected the delimiter; within quotes, a quote is doubled");
  }

  std::pair<std::size_t, std::size_t> Trim(std::size_t from, std::size_t to) {
    while (from < to && IsBlank(row()[from])) ++from;
    while (from < to && IsBlank(row()[to - 1])) --to;
    return {from, to};
  }

  [[nodiscard]] absl::Status Error(const std::string& what) const {
    return CellError(source_, line_, places_.size() + 1, what);
  }

  std::istream& input_;
  const std::string& source_;
  char delimiter_;
  // Otherwise the first line decides.
  bool has_delimiter_;
  // What was read of the input; the row begins at begin_ and has length_ bytes and lines_ lines.
  std::string buffer_;
  std::size_t begin_ = 0;
  std::size_t length_ = 0;
  std::size_t line_ = 1;
  std::size_t lines_ = 0;
  // The cells of the row: their first byte and the byte after their last one.
  std::vector<std::pair<std::size_t, std::size_t>> places_;
  std::vector<std::string_view> cells_;
};

}  // namespace

absl::Status ReadCsv(std::istream& input, const std::string& source, std::optional<char> delimiter,
                     OnRow on_row) {
  CsvReader reader(input, source, delimiter);
  for (;;) {
    CALIBD_ASSIGN_OR_RETURN(const bool more, reader.Next());
    if (!more) return absl::OkStatus();
    CALIBD_RETURN_IF_ERROR(on_row(reader.text_row()));
  }
}

}  // namespace calibd::cli
