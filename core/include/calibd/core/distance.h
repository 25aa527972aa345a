#ifndef CALIBD_CORE_DISTANCE_H_
#define CALIBD_CORE_DISTANCE_H_

#include <cmath>
#include <span>

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

// Computes a distance from its sum over classes of absolute differences or their squares.
[[nodiscard]] inline double DistanceOfSum(Distance distance, double sum) noexcept {
  switch (distance) {
    case Distance::kTotalVariation:
      return 0.5 * sum;
    case Distance::kEuclidean:
      return std::sqrt(sum);
    case Distance::kCityblock:
    case Distance::kSquaredEuclidean:
      return sum;
  }
  return 0;
}
[[nodiscard]] constexpr bool SumsSquares(Distance distance) noexcept {
  return distance == Distance::kEuclidean || distance == Distance::kSquaredEuclidean;
}

}  // namespace calibd

#endif  // CALIBD_CORE_DISTANCE_H_
