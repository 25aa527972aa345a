#include "row_check.h"

#include <charconv>
#include <utility>

#include "calibd/text/printable.h"

namespace calibd::client {
namespace {

constexpr std::size_t kMaxIdBytes = 128;
constexpr char kField[] = "prediction_ids";
constexpr std::size_t kMaxGroupBytes = 64;
constexpr char kGroupField[] = "group_values";

}  // namespace

std::string Exact(double value) {
  std::array<char, 32> text;
  const auto end = std::to_chars(text.data(), text.data() + text.size(), value);
  return {text.data(), end.ptr};
}

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
  if (auto fault = FindUnprintable(value)) return RowFault{kGroupField, *std::move(fault)};
  return std::nullopt;
}

}  // namespace calibd::client
