#ifndef CALIBD_CORE_KERNEL_H_
#define CALIBD_CORE_KERNEL_H_

#include <cmath>
#include <span>

#include "absl/status/statusor.h"

namespace calibd {

// Distance of two predictions x and z over the same m classes.
enum class Distance {
  // 1/2 sum_k |x_k - z_k|, in [0, 1] on the simplex.
  kTotalVariation,
  // sum_k |x_k - z_k|, in [0, 2].
  kCityblock,
  // sqrt(sum_k (x_k - z_k)^2), in [0, sqrt 2].
  kEuclidean,
  // sum_k (x_k - z_k)^2, in [0, 2].
  kSquaredEuclidean,
};

// Cost: O(m). The result does not depend on the CPU.
[[nodiscard]] double DistanceOf(Distance distance, std::span<const double> x,
                                std::span<const double> z) noexcept;

// A real-valued kernel of two predictions, exp(-distance / scale); as a matrix-valued kernel, it
// means this number times the identity matrix. All of these kernels are universal. Source: Widmann,
// Lindsten & Zachariah, NeurIPS 2019, Sec. 3.3 and App. D.
class Kernel {
 public:
  // exp(-distance(x, z) / bandwidth), the exponential (Laplacian) kernel over total
  // variation, cityblock or Euclidean distance. bandwidth: nu, finite and > 0, in units
  // of the distance. The default of the paper is over total variation (Sec. 7).
  // Errors: InvalidArgument naming the value.
  [[nodiscard]] static absl::StatusOr<Kernel> Exponential(Distance distance, double bandwidth);
  [[nodiscard]] static absl::StatusOr<Kernel> ExponentialTotalVariation(double bandwidth);

  // exp(-gamma |x - z|_2^2), the Gaussian (RBF) kernel; gamma finite and > 0.
  // Errors: InvalidArgument naming the value.
  [[nodiscard]] static absl::StatusOr<Kernel> Gaussian(double gamma);

  // exp(-distance(x, z) / bandwidth) over any of the distances: over the squared Euclidean
  // one it is the Gaussian kernel with gamma = 1 / bandwidth. bandwidth: finite and > 0.
  // Errors: InvalidArgument naming the value.
  [[nodiscard]] static absl::StatusOr<Kernel> Over(Distance distance, double bandwidth);

  [[nodiscard]] Distance distance() const noexcept { return distance_; }
  // nu in units of distance(); 1 / gamma for the Gaussian kernel.
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
