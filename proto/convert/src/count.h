#ifndef CALIBD_CONVERT_COUNT_H_
#define CALIBD_CONVERT_COUNT_H_

#include <cstddef>
#include <cstdint>

namespace calibd::convert {

// 0 means the default; a negative number is converted to one that is out of every range.
inline std::size_t Count(std::int32_t given, std::size_t by_default) {
  if (given == 0) return by_default;
  return given < 0 ? static_cast<std::size_t>(-1) : static_cast<std::size_t>(given);
}

}  // namespace calibd::convert

#endif  // CALIBD_CONVERT_COUNT_H_
