#ifndef CALIBD_SERVER_ROWS_GROUP_VALUES_H_
#define CALIBD_SERVER_ROWS_GROUP_VALUES_H_

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>

#include "server/base/xxh3.h"

namespace calibd::server {

// The hash of a value that a window keeps.
[[nodiscard]] inline std::uint64_t HashOfGroup(std::string_view value) noexcept {
  return XXH3_64bits(value.data(), value.size());
}

// The values of the group tag for some rows: one per row, one for all, or none. A view.
class GroupValues {
 public:
  GroupValues() = default;
  explicit GroupValues(std::span<const std::string> values) : values_(values) {}

  // Empty for a row without a value.
  [[nodiscard]] const std::string& operator[](std::size_t row) const noexcept {
    static const std::string kNone;
    return values_.empty() ? kNone : values_[values_.size() == 1 ? 0 : row];
  }
  [[nodiscard]] GroupValues rows(std::size_t first, std::size_t count) const noexcept {
    return values_.size() <= 1 ? *this : GroupValues(values_.subspan(first, count));
  }

 private:
  std::span<const std::string> values_;
};

}  // namespace calibd::server

#endif  // CALIBD_SERVER_ROWS_GROUP_VALUES_H_
