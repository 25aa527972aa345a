#ifndef CALIBD_CORE_SRC_BASE_PAIR_MEDIAN_H_
#define CALIBD_CORE_SRC_BASE_PAIR_MEDIAN_H_

#include <algorithm>
#include <cstddef>
#include <vector>

#include "absl/status/statusor.h"
#include "calibd/core/run_control.h"
#include "calibd/core/status_macros.h"

namespace calibd {

// The mean of the two middle values if their number is even; 0 without values. Changes the order.
[[nodiscard]] inline double MedianOf(std::vector<double>& values) {
  if (values.empty()) return 0;
  const auto middle = values.begin() + static_cast<std::ptrdiff_t>(values.size() / 2);
  std::nth_element(values.begin(), middle, values.end());
  if (values.size() % 2 == 1) return *middle;
  return 0.5 * (*middle + *std::max_element(values.begin(), middle));
}

// The median of distance(i, j) over the pairs i < j, or, if this is 0, over the pairs with a
// positive distance; 0 if all distances are 0. Errors: Cancelled.
template <typename DistanceOfPair>
[[nodiscard]] absl::StatusOr<double> MedianDistance(std::size_t n, const RunControl& control,
                                                    const DistanceOfPair& distance) {
  std::vector<double> distances;
  distances.reserve(n * (n - 1) / 2);
  for (std::size_t i = 0; i < n; ++i) {
    CALIBD_RETURN_IF_ERROR(control.CheckCancelled());
    for (std::size_t j = i + 1; j < n; ++j) distances.push_back(distance(i, j));
  }
  double median = MedianOf(distances);
  if (median == 0) {
    std::erase(distances, 0.0);
    median = MedianOf(distances);
  }
  return median;
}

}  // namespace calibd

#endif  // CALIBD_CORE_SRC_BASE_PAIR_MEDIAN_H_
