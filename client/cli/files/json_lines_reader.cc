#include "client/cli/files/json_lines_reader.h"

#include <algorithm>
#include <array>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "absl/strings/str_cat.h"
#include "calibd/core/status_macros.h"
#include "nlohmann/json.hpp"

namespace calibd::cli {
namespace {

// Receives the values of one line after the other, without a tree of values.
class JsonRow : public nlohmann::json_sax<nlohmann::json> {
 public:
  explicit JsonRow(std::span<const std::string> nested) : nested_(nested) {}

  // Reads one object. Returns the fault, or an empty text.
  std::string Read(std::string_view line) {
    first_ = names_.empty();
    depth_ = 0;
    fault_.clear();
    for (std::string& cell : cells_) cell.clear();
    seen_.assign(cells_.size(), false);
    if (!nlohmann::json::sax_parse(line.begin(), line.end(), this) && fault_.empty()) {
      fault_ = "is not a JSON object";
    }
    return fault_;
  }

  [[nodiscard]] std::vector<std::string_view> Names() const {
    return {names_.begin(), names_.end()};
  }
  // The columns of the key whose content is read.
  [[nodiscard]] std::span<const std::size_t> Nested() const { return nested_columns_; }
  [[nodiscard]] std::vector<std::string_view> Cells() const {
    return {cells_.begin(), cells_.end()};
  }

  bool null() override { return Take(""); }
  bool boolean(bool value) override { return Take(value ? "True" : "False"); }
  bool number_integer(std::int64_t value) override { return Take(absl::StrCat(value)); }
  bool number_unsigned(std::uint64_t value) override { return Take(absl::StrCat(value)); }
  bool number_float(double /*value*/, const std::string& text) override { return Take(text); }
  bool string(std::string& value) override { return Take(value); }
  bool binary(binary_t& /*value*/) override { return Fail("is not a JSON object"); }
  bool start_object(std::size_t /*elements*/) override { return Open(false); }
  bool start_array(std::size_t /*elements*/) override { return Open(true); }
  bool end_object() override { return Close(); }
  bool end_array() override { return Close(); }
  bool key(std::string& value) override {
    if (!skipping()) name_ = value;
    return true;
  }
  bool parse_error(std::size_t position, const std::string& token,
                   const nlohmann::detail::exception& /*error*/) override {
    // Python's json module writes NaN.
    const bool nan = token.find("NaN") != std::string::npos || token.ends_with("N");
    return Fail(absl::StrCat("is not valid JSON at byte ", position,
                             nan ? ": NaN is no JSON, write null for a missing value"
                                 : ", expected one object on each line"));
  }

 private:
  // Whether the value belongs to a key whose content is not read.
  [[nodiscard]] bool skipping() const { return depth_ > 1 && !in_nested_; }

  bool Fail(std::string fault) {
    fault_ = std::move(fault);
    return false;
  }

  bool Open(bool array) {
    if (depth_ == 0 && array) {
      return Fail(
          "is a JSON array, expected one object on each line (pandas: "
          "frame.to_json(path, orient=\"records\", lines=True))");
    }
    if (depth_ == 1) {
      in_nested_ = std::find(nested_.begin(), nested_.end(), name_) != nested_.end();
      in_array_ = array;
      index_ = 0;
      if (!in_nested_ && !Store(name_, "")) return false;
    } else if (depth_ == 2 && in_nested_) {
      return Fail(absl::StrCat("has nested values in ", Quote(name_), ", expected numbers"));
    }
    ++depth_;
    return true;
  }

  bool Close() {
    if (--depth_ == 1) in_nested_ = false;
    return true;
  }

  bool Take(const std::string& value) {
    if (depth_ == 0) return Fail("is not a JSON object");
    if (skipping()) return true;
    if (in_nested_ && in_array_) return Store(absl::StrCat(index_++), value);
    return Store(name_, value);
  }

  bool Store(const std::string& name, const std::string& value) {
    const auto [at, added] = columns_.try_emplace(name, names_.size());
    if (added) {
      if (!first_) return Fail("has " + Quote(name) + ", which the first line does not have");
      if (in_nested_) nested_columns_.push_back(names_.size());
      names_.push_back(name);
      cells_.emplace_back();
      seen_.push_back(false);
    }
    const std::size_t column = at->second;
    if (seen_[column]) return Fail("has " + Quote(name) + " twice");
    seen_[column] = true;
    cells_[column] = value;
    return true;
  }

  std::span<const std::string> nested_;
  // Names of the columns, in the order of the first line.
  std::vector<std::string> names_;
  std::vector<std::size_t> nested_columns_;
  absl::flat_hash_map<std::string, std::size_t> columns_;
  // What the present line has. The first one names the columns.
  bool first_ = true;
  std::vector<std::string> cells_;
  std::vector<bool> seen_;
  std::string fault_;
  // The place in the line.
  std::size_t depth_ = 0;
  std::string name_;
  bool in_nested_ = false;
  bool in_array_ = false;
  std::size_t index_ = 0;
};

// Reads a line, or its first bytes if it is longer than kMaxLineBytes. Returns false at the end.
bool ReadLine(std::istream& input, std::string& line) {
  line.clear();
  std::array<char, 65536> piece;
  for (bool whole = false; !whole && line.size() <= kMaxLineBytes;) {
    input.getline(piece.data(), piece.size());
    const auto count = static_cast<std::size_t>(input.gcount());
    if (count == 0 && !input.good()) return !line.empty();
    whole = input.good();
    line.append(piece.data(), whole ? count - 1 : count);
    // A line that is longer than the piece sets this bit.
    if (!input.eof()) input.clear();
  }
  return true;
}

bool IsEmpty(std::string_view line) {
  return line.find_first_not_of(" \t\r") == std::string_view::npos;
}

}  // namespace

absl::Status ReadJsonLines(std::istream& input, const std::string& source,
                           std::span<const std::string> nested, OnRow on_row) {
  JsonRow row(nested);
  std::string line;
  bool named = false;
  for (std::size_t number = 1; ReadLine(input, line); ++number) {
    const auto error = [&](std::string_view fault) {
      return absl::InvalidArgumentError(
          absl::StrCat(source, " line ", number, " ", std::string(fault)));
    };
    if (line.size() > kMaxLineBytes) {
      return error(absl::StrCat("is longer than ", kMaxLineBytes, " bytes"));
    }
    if (IsEmpty(line)) continue;
    if (const std::string fault = row.Read(line); !fault.empty()) return error(fault);
    if (!named) {
      const std::vector<std::string_view> names = row.Names();
      CALIBD_RETURN_IF_ERROR(on_row({number, names, row.Nested()}));
      named = true;
    }
    const std::vector<std::string_view> cells = row.Cells();
    CALIBD_RETURN_IF_ERROR(on_row({number, cells}));
  }
  return absl::OkStatus();
}

}  // namespace calibd::cli
