#ifndef CALIBD_SERVER_ROWS_GROUP_VALUES_H_
#define CALIBD_SERVER_ROWS_GROUP_VALUES_H_

#include <cstddef>
#include <span>
#include <string>

namespace calibd::server {

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
