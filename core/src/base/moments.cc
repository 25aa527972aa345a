#include "calibd/core/moments.h"

namespace calibd {

void RunningMoments::Merge(const RunningMoments& other) noexcept {
  if (other.count == 0) return;
  const auto n = static_cast<double>(count);
  const auto other_n = static_cast<double>(other.count);
  const double delta = other.mean - mean;
  m2 += other.m2 + delta * delta * (n * other_n / (n + other_n));
  mean += delta * (other_n / (n + other_n));
  count += other.count;
}

double RunningMoments::Variance() const noexcept { return m2 / static_cast<double>(count - 1); }

}  // namespace calibd
