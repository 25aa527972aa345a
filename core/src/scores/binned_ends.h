#ifndef CALIBD_CORE_SRC_SCORES_BINNED_ENDS_H_
#define CALIBD_CORE_SRC_SCORES_BINNED_ENDS_H_

#include <algorithm>
#include <cstddef>
#include <span>

namespace calibd {

// A bin with observations: |S_b|, and the most that |B_b| can be, see error_interval.h.
struct VisitedBin {
  double deviation = 0;
  double cap = 0;
};

// The bounds of sum_b |B_b| from the bins, by the best set of them. boundaries[k]: the boundary of
// a sum over k bins, not decreasing. They sort the bins. Cost: O(bins log bins).
[[nodiscard]] inline double LowerSum(std::span<VisitedBin> bins,
                                     std::span<const double> boundaries) noexcept {
  std::sort(bins.begin(), bins.end(),
            [](const VisitedBin& a, const VisitedBin& b) { return a.deviation > b.deviation; });
  double lower = 0;
  double of_set = 0;
  for (std::size_t k = 1; k <= bins.size(); ++k) {
    of_set += bins[k - 1].deviation;
    lower = std::max(lower, of_set - boundaries[k]);
  }
  return lower;
}

[[nodiscard]] inline double UpperSum(std::span<VisitedBin> bins,
                                     std::span<const double> boundaries) noexcept {
  std::sort(bins.begin(), bins.end(), [](const VisitedBin& a, const VisitedBin& b) {
    return a.cap - a.deviation > b.cap - b.deviation;
  });
  double bound = 0;
  for (const VisitedBin& bin : bins) bound += bin.cap;
  double upper = bound;
  for (std::size_t k = 1; k <= bins.size(); ++k) {
    bound += bins[k - 1].deviation - bins[k - 1].cap;
    upper = std::min(upper, bound + boundaries[k]);
  }
  return upper;
}

}  // namespace calibd

#endif  // CALIBD_CORE_SRC_SCORES_BINNED_ENDS_H_
