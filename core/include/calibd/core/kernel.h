#ifndef CALIBD_CORE_KERNEL_H_
#define CALIBD_CORE_KERNEL_H_

#include <cmath>
#include <span>

#include "absl/status/statusor.h"

namespace calibd {

// Total variation distance of two predictions over the same m classes,
// 1/2 sum_k |x_k - z_k|, in [0, 1] on the simplex. Cost: O(m). The result does
// not depend on the CPU.
[[nodiscard]] double TotalVariation(std::span<const double> x, std::span<const double> z) noexcept;

// The exponential (Laplacian) kernel over total variation times the identity
// matrix, k(x, z) = exp(-TV(x, z) / bandwidth) I. Universal. Source: Widmann,
// Lindsten & Zachariah, NeurIPS 2019, Sec. 3.3 and Sec. 7.
class Kernel {
 public:
  // bandwidth: nu, finite and > 0, in units of total variation.
  // Errors: InvalidArgument naming the value.
  [[nodiscard]] static absl::StatusOr<Kernel> ExponentialTotalVariation(double bandwidth);

  [[nodiscard]] double bandwidth() const noexcept { return bandwidth_; }

  // The scalar factor, in [0, 1]; 1 for equal arguments.
  [[nodiscard]] double operator()(std::span<const double> x,
                                  std::span<const double> z) const noexcept;

  // The scalar factor at a given total variation distance.
  [[nodiscard]] double OfDistance(double distance) const noexcept {
    return std::exp(-distance / bandwidth_);
  }

  // B = B_{p;q} of Sec. 4 of the same paper with p = q, the tight choice of
  // Example H.1: 2 sup |k| = 2. |h_ij| <= B.
  [[nodiscard]] static constexpr double DistributionFreeBound() noexcept { return 2.0; }

 private:
  explicit Kernel(double bandwidth) noexcept : bandwidth_(bandwidth) {}

  double bandwidth_;
};

}  // namespace calibd

#endif  // CALIBD_CORE_KERNEL_H_
