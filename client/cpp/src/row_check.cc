#include "row_check.h"

namespace calibd::client {
namespace {

constexpr std::size_t kMaxIdBytes = 128;
constexpr char kField[] = "prediction_ids";
constexpr std::size_t kMaxGroupBytes = 64;
constexpr char kGroupField[] = "group_values";

// As protobuf wants the strings of a message: no overlong forms, no surrogates, nothing
// beyond U+10FFFF.
bool IsUtf8(std::string_view text) {
  for (std::size_t i = 0; i < text.size();) {
    const auto lead = static_cast<unsigned char>(text[i++]);
    if (lead < 0x80) continue;
    std::size_t more = 0;
    if (lead >= 0xC2 && lead <= 0xDF) more = 1;
    if (lead >= 0xE0 && lead <= 0xEF) more = 2;
    if (lead >= 0xF0 && lead <= 0xF4) more = 3;
    if (more == 0 || text.size() - i < more) return false;
    // The byte after some leads has narrower bounds.
    unsigned char lower = lead == 0xE0 ? 0xA0 : lead == 0xF0 ? 0x90 : 0x80;
    unsigned char upper = lead == 0xED ? 0x9F : lead == 0xF4 ? 0x8F : 0xBF;
    for (; more > 0; --more) {
      const auto byte = static_cast<unsigned char>(text[i++]);
      if (byte < lower || byte > upper) return false;
      lower = 0x80;
      upper = 0xBF;
    }
  }
  return true;
}

}  // namespace

std::optional<RowFault> FindIdFault(std::string_view id) {
  if (id.empty() || id.size() > kMaxIdBytes) {
    return RowFault{kField,
                    absl::StrCat("is of ", id.size(), " bytes, expected 1 to ", kMaxIdBytes)};
  }
  if (!IsUtf8(id)) return RowFault{kField, "is not valid UTF-8"};
  return std::nullopt;
}

std::optional<RowFault> FindGroupFault(std::string_view value) {
  if (value.size() > kMaxGroupBytes) {
    return RowFault{kGroupField,
                    absl::StrCat("is of ", value.size(), " bytes, expected 1 to ", kMaxGroupBytes)};
  }
  for (const char c : value) {
    if (static_cast<unsigned char>(c) < 0x20 || c == 0x7f) {
      return RowFault{kGroupField, "has a control character, expected none"};
    }
  }
  if (!IsUtf8(value)) return RowFault{kGroupField, "is not valid UTF-8"};
  return std::nullopt;
}

}  // namespace calibd::client
