#include "calibd/text/printable.h"

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdio>

namespace calibd {
namespace {

// The first character of a text.
struct Character {
  // Number of bytes of the character; 1 for a byte that is not UTF-8.
  std::size_t size = 1;
  // The code point; unset for a byte that is not UTF-8.
  std::optional<char32_t> code_point;
};

// text: not empty.
Character Decode(std::string_view text) noexcept {
  const auto lead = static_cast<unsigned char>(text.front());
  if (lead < 0x80) {
    return {.size = 1, .code_point = lead};
  }
  std::size_t size = 0;
  char32_t code_point = 0;
  if (lead >= 0xC2 && lead <= 0xDF) {
    size = 2;
    code_point = lead & 0x1FU;
  } else if (lead >= 0xE0 && lead <= 0xEF) {
    size = 3;
    code_point = lead & 0x0FU;
  } else if (lead >= 0xF0 && lead <= 0xF4) {
    size = 4;
    code_point = lead & 0x07U;
  }
  if (size == 0 || text.size() < size) {
    return {};
  }
  for (std::size_t i = 1; i < size; ++i) {
    const auto byte = static_cast<unsigned char>(text[i]);
    if ((byte & 0xC0U) != 0x80) {
      return {};
    }
    code_point = (code_point << 6U) | (byte & 0x3FU);
  }
  constexpr std::array<char32_t, 5> kLeast{0, 0, 0x80, 0x800, 0x10000};
  const bool surrogate = code_point >= 0xD800 && code_point <= 0xDFFF;
  if (code_point < kLeast[size] || code_point > 0x10FFFF || surrogate) {
    return {};
  }
  return {.size = size, .code_point = code_point};
}

struct Range {
  char32_t first;
  char32_t last;
};

constexpr std::array kUnprintable{
    Range{0x0000, 0x001F},    // C0 controls
    Range{0x007F, 0x009F},    // delete, C1 controls
    Range{0x00AD, 0x00AD},    // soft hyphen
    Range{0x061C, 0x061C},    // Arabic letter mark, a bidirectional control
    Range{0x180E, 0x180E},    // Mongolian vowel separator
    Range{0x200B, 0x200B},    // zero-width space
    Range{0x200E, 0x200F},    // bidirectional marks
    Range{0x2028, 0x202E},    // line and paragraph separator, bidirectional controls
    Range{0x2060, 0x206F},    // word joiner, invisible operators, bidirectional isolates
    Range{0xFDD0, 0xFDEF},    // noncharacters
    Range{0xFEFF, 0xFEFF},    // byte order mark
    Range{0xFFF9, 0xFFFB},    // interlinear annotation
    Range{0xE0000, 0xE007F},  // tags
};

bool IsPrintable(char32_t code_point) noexcept {
  if (code_point >= 0x20 && code_point < 0x7F) return true;
  // The last two code points of every plane are noncharacters.
  return (code_point & 0xFFFEU) != 0xFFFE &&
         std::none_of(kUnprintable.begin(), kUnprintable.end(), [code_point](const Range& range) {
           return code_point >= range.first && code_point <= range.last;
         });
}

// Calls visit(offset, character) for each character until it returns false.
template <typename Visit>
void ForEachCharacter(std::string_view text, const Visit& visit) {
  for (std::size_t i = 0; i < text.size();) {
    const Character character = Decode(text.substr(i));
    if (!visit(i, character)) return;
    i += character.size;
  }
}

template <typename... Arguments>
std::string Format(const char* format, Arguments... arguments) {
  std::array<char, 80> text{};
  std::snprintf(text.data(), text.size(), format, arguments...);
  return text.data();
}

std::string Escape(std::string_view bytes, std::optional<char32_t> code_point) {
  if (!code_point.has_value()) {
    return Format("\\x%02x", static_cast<unsigned>(static_cast<unsigned char>(bytes.front())));
  }
  switch (*code_point) {
    case '\n':
      return "\\n";
    case '\r':
      return "\\r";
    case '\t':
      return "\\t";
    default:
      return Format(*code_point > 0xFFFF ? "\\U%08x" : "\\u%04x",
                    static_cast<unsigned>(*code_point));
  }
}

}  // namespace

bool IsUtf8(std::string_view text) noexcept {
  bool valid = true;
  ForEachCharacter(text, [&valid](std::size_t /*offset*/, const Character& character) {
    valid = character.code_point.has_value();
    return valid;
  });
  return valid;
}

std::optional<std::string> FindUnprintable(std::string_view text) {
  std::optional<std::string> found;
  ForEachCharacter(text, [&found](std::size_t offset, const Character& character) {
    if (!character.code_point.has_value()) {
      found = Format("is not valid UTF-8 at byte %zu", offset);
    } else if (!IsPrintable(*character.code_point)) {
      found = Format("has U+%04X at byte %zu, expected printable characters",
                     static_cast<unsigned>(*character.code_point), offset);
    }
    return !found.has_value();
  });
  return found;
}

std::string EscapeUnprintable(std::string_view text) {
  std::string escaped;
  escaped.reserve(text.size());
  ForEachCharacter(text, [text, &escaped](std::size_t offset, const Character& character) {
    const std::string_view bytes = text.substr(offset, character.size);
    if (character.code_point.has_value() && IsPrintable(*character.code_point)) {
      escaped += bytes;
    } else {
      escaped += Escape(bytes, character.code_point);
    }
    return true;
  });
  return escaped;
}

}  // namespace calibd
