#include "server/watch/limit.h"

#include <bit>

namespace calibd::server {

bool KeepsMark(std::int64_t index, std::int64_t newest) noexcept {
  // The number of newest marks that are all kept.
  constexpr std::int64_t kNewestMarks = 8;
  const std::int64_t age = newest - index;
  if (age < kNewestMarks) return true;
  return index % static_cast<std::int64_t>(std::bit_floor(static_cast<std::uint64_t>(age)) / 2) ==
         0;
}

v1::CalibrationError::Status ToProto(LimitStatus status) noexcept {
  switch (status) {
    case LimitStatus::kOverLimit:
      return v1::CalibrationError::OVER_LIMIT;
    case LimitStatus::kWithinLimit:
      return v1::CalibrationError::WITHIN_LIMIT;
    case LimitStatus::kUndecided:
      break;
  }
  return v1::CalibrationError::UNDECIDED;
}

}  // namespace calibd::server
