#include "calibd/text/model_id.h"

#include <algorithm>

namespace calibd {
namespace {

constexpr std::size_t kMaxLength = 128;
constexpr std::string_view kEscapedPrefix = "x--";
constexpr char kHexDigits[] = "0123456789abcdef";

bool IsAlphanumeric(char c) noexcept {
  return (c >= 'A' && c <= 'Z') || (c >= 'a' && c <= 'z') || (c >= '0' && c <= '9');
}

bool IsPlain(char c) noexcept { return IsAlphanumeric(c) || c == '.' || c == '_'; }

}  // namespace

bool IsModelId(std::string_view text) noexcept {
  return !text.empty() && text.size() <= kMaxLength && IsAlphanumeric(text.front()) &&
         std::all_of(text.begin(), text.end(), [](char c) { return IsPlain(c) || c == '-'; });
}

std::string EscapeModelId(std::string_view text) {
  if (IsModelId(text) && !text.starts_with(kEscapedPrefix)) return std::string(text);
  std::string id(kEscapedPrefix);
  for (const char c : text) {
    if (IsPlain(c)) {
      id += c;
    } else {
      const auto byte = static_cast<unsigned char>(c);
      id += {'-', kHexDigits[byte >> 4U], kHexDigits[byte & 0xFU]};
    }
  }
  return id;
}

}  // namespace calibd
