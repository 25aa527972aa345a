#include "calibd/core/kernel.h"

#include <cmath>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"

namespace calibd {
absl::StatusOr<Kernel> Kernel::Over(Distance distance, double bandwidth) {
  if (bandwidth > 0 && std::isfinite(bandwidth)) return Kernel(distance, bandwidth);
  return absl::InvalidArgumentError(
      absl::StrCat("bandwidth is ", bandwidth, ", expected a finite number > 0"));
}

absl::StatusOr<Kernel> Kernel::ExponentialTotalVariation(double bandwidth) {
  return Over(Distance::kTotalVariation, bandwidth);
}

double Kernel::operator()(std::span<const double> x, std::span<const double> z) const noexcept {
  return OfDistance(DistanceOf(distance_, x, z));
}

}  // namespace calibd
