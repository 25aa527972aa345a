#include "calibd/core/newest_stretch.h"

namespace calibd {

std::optional<std::int64_t> NewestStart(std::int64_t count) noexcept {
  if (count < kLeastStretch) return std::nullopt;
  return (count - kLeastStretch) / kStretchSpacing * kStretchSpacing;
}

double RecoveryLevel(std::int64_t alarm, std::int64_t start) noexcept {
  // The multiples of the spacing below the alarm.
  const std::int64_t before = (alarm + kStretchSpacing - 1) / kStretchSpacing;
  const std::int64_t index = start / kStretchSpacing - before + 1;
  const auto j = static_cast<double>(index);
  return kSingleErrorLevels.total() / (j * (j + 1));
}

}  // namespace calibd
