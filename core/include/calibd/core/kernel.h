#ifndef CALIBD_CORE_KERNEL_H_
#define CALIBD_CORE_KERNEL_H_

#include <cmath>
#include <span>

#include "absl/status/statusor.h"
#include "calibd/core/distance.h"

namespace calibd {

// A real-valued kernel of two predictions, exp(-distance / scale); as a matrix-valued kernel, it
// means this number times the identity matrix. All of these kernels are universal. Source: Widmann,
// Lindsten & Zachariah, NeurIPS 2019, Sec. 3.3 and App. D.
class Kernel {
 public:
  // exp(-distance(x, z) / bandwidth): the exponential (Laplacian) kernel, and over the squared
  // Euclidean distance the Gaussian (RBF) kernel with gamma = 1 / bandwidth. bandwidth: nu, finite
  // and > 0, in units of the distance. Errors: InvalidArgument naming the value.
  [[nodiscard]] static absl::StatusOr<Kernel> Over(Distance distance, double bandwidth);
  // The default of the paper (Sec. 7).
  [[nodiscard]] static absl::StatusOr<Kernel> ExponentialTotalVariation(double bandwidth);

  [[nodiscard]] Distance distance() const noexcept { return distance_; }
  // nu in units of distance().
  [[nodiscard]] double bandwidth() const noexcept { return bandwidth_; }

  // The scalar factor, in [0, 1]; 1 for equal arguments.
  [[nodiscard]] double operator()(std::span<const double> x,
                                  std::span<const double> z) const noexcept;

  // The scalar factor at a given distance().
  [[nodiscard]] double OfDistance(double distance) const noexcept {
    return std::exp(-distance / bandwidth_);
  }

  // B = B_{p;q} of Sec. 4 of the same paper with p = q, the tight choice of
  // Example H.1: 2 sup |k| = 2. |h_ij| <= B.
  [[nodiscard]] static constexpr double DistributionFreeBound() noexcept { return 2.0; }

  friend bool operator==(const Kernel&, const Kernel&) = default;

 private:
  Kernel(Distance distance, double bandwidth) noexcept
      : distance_(distance), bandwidth_(bandwidth) {}

  Distance distance_;
  double bandwidth_;
};

}  // namespace calibd

#endif  // CALIBD_CORE_KERNEL_H_
