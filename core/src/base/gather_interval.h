#ifndef CALIBD_CORE_SRC_BASE_GATHER_INTERVAL_H_
#define CALIBD_CORE_SRC_BASE_GATHER_INTERVAL_H_

#include <cstddef>
#include <span>

namespace calibd {

// Room that `inside` needs beyond values.size().
inline constexpr std::size_t kGatherSlack = 8;

struct IntervalCount {
  // Values below the interval, and those inside it.
  std::size_t below = 0;
  std::size_t inside = 0;
};

// Copies the values in [from, to] to `inside`, in order, with SIMD instructions chosen
// at run time.
IntervalCount GatherInterval(std::span<const double> values, double from, double to,
                             double* inside);

}  // namespace calibd

#endif  // CALIBD_CORE_SRC_BASE_GATHER_INTERVAL_H_
