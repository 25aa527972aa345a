#include "calibd/core/kernel.h"

#include <cmath>
#include <cstddef>
#include <string>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"

namespace calibd {

double TotalVariation(std::span<const double> x, std::span<const double> z) noexcept {
  // Four sums break the chain of dependent additions; their order is fixed.
  double sum[4] = {0, 0, 0, 0};
  std::size_t k = 0;
  for (; k + 4 <= x.size(); k += 4) {
    for (std::size_t lane = 0; lane < 4; ++lane) {
      sum[lane] += std::abs(x[k + lane] - z[k + lane]);
    }
  }
  for (; k < x.size(); ++k) sum[0] += std::abs(x[k] - z[k]);
  return 0.5 * ((sum[0] + sum[1]) + (sum[2] + sum[3]));
}

absl::StatusOr<Kernel> Kernel::ExponentialTotalVariation(double bandwidth) {
  if (!(bandwidth > 0) || !std::isfinite(bandwidth)) {
    return absl::InvalidArgumentError(
        absl::StrCat("bandwidth is ", bandwidth, ", expected a finite number > 0"));
  }
  return Kernel(bandwidth);
}

double Kernel::operator()(std::span<const double> x, std::span<const double> z) const noexcept {
  return OfDistance(TotalVariation(x, z));
}

}  // namespace calibd
