#ifndef CALIBD_CORE_SRC_BASE_MOMENTS_H_
#define CALIBD_CORE_SRC_BASE_MOMENTS_H_

#include <cmath>
#include <span>

#include "calibd/core/running_skce.h"

namespace calibd {

inline RunningMoments MomentsOf(std::span<const double> values) noexcept {
  RunningMoments moments;
  for (const double value : values) moments.Add(value);
  return moments;
}

// Of the mean. Needs moments.count >= 2.
inline double StandardError(const RunningMoments& moments) noexcept {
  return std::sqrt(moments.Variance() / static_cast<double>(moments.count));
}

}  // namespace calibd

#endif  // CALIBD_CORE_SRC_BASE_MOMENTS_H_
