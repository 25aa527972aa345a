#include "client/cli/files/text_row.h"

#include <algorithm>
#include <charconv>
#include <iterator>
#include <system_error>

#include "absl/strings/ascii.h"
#include "absl/strings/escaping.h"
#include "absl/strings/str_cat.h"
#include "calibd/text/printable.h"

namespace calibd::cli {
namespace {

constexpr std::size_t kMaxQuotedBytes = 32;

}  // namespace

bool IsMissing(std::string_view cell) {
  constexpr std::string_view kTexts[] = {"",    "nan",  "NaN",  "NAN",  "-nan", "NA",   "N/A",
                                         "n/a", "#N/A", "<NA>", "null", "NULL", "None", "NaT"};
  return std::find(std::begin(kTexts), std::end(kTexts), cell) != std::end(kTexts);
}

bool ParseDouble(std::string_view text, double& value) {
  const char* const end = text.data() + text.size();
  const auto [parsed, error] = std::from_chars(text.data(), end, value);
  if (parsed != end) return false;
  if (error != std::errc::result_out_of_range) return error == std::errc();
  value = 0;
  return text.find("e-") != std::string_view::npos || text.find("E-") != std::string_view::npos;
}

std::string HintAtNotation(std::string_view text) {
  double value = 0;
  if (text.ends_with('%') && ParseDouble(text.substr(0, text.size() - 1), value)) {
    return "; remove the % and divide by 100";
  }
  std::string point(text);
  if (std::ranges::count(point, ',') != 1) return "";
  std::ranges::replace(point, ',', '.');
  return ParseDouble(point, value) ? "; write a decimal point instead of the comma" : "";
}

std::string Quote(std::string_view text) {
  const std::string_view shown = text.substr(0, kMaxQuotedBytes);
  // Letters stay readable, whatever their script.
  return absl::StrCat("\"", EscapeUnprintable(absl::Utf8SafeCHexEscape(std::string(shown))),
                      shown.size() < text.size() ? "...\"" : "\"");
}

std::string OptionValue(std::string_view text) {
  const bool plain = !text.empty() && std::all_of(text.begin(), text.end(), [](char c) {
    return absl::ascii_isalnum(static_cast<unsigned char>(c)) || c == '_' || c == '.' || c == '-';
  });
  return plain ? std::string(text) : Quote(text);
}

absl::Status FileError(std::string_view source, std::string_view what) {
  return absl::InvalidArgumentError(absl::StrCat(std::string(source), ": ", std::string(what)));
}

absl::Status CellError(std::string_view source, std::size_t line, std::size_t column,
                       std::string_view what) {
  return absl::InvalidArgumentError(absl::StrCat(std::string(source), " line ", line, ", column ",
                                                 column, ": ", std::string(what)));
}

}  // namespace calibd::cli
