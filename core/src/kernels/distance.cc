#include "calibd/core/distance.h"

#include <cstddef>

namespace calibd {
namespace {

// Four sums break the chain of dependent additions; their order is fixed.
template <typename Term>
double SumOverClasses(std::span<const double> x, std::span<const double> z, const Term& term) {
  double sum[4] = {0, 0, 0, 0};
  std::size_t k = 0;
  for (; k + 4 <= x.size(); k += 4) {
    for (std::size_t lane = 0; lane < 4; ++lane) sum[lane] += term(x[k + lane] - z[k + lane]);
  }
  for (; k < x.size(); ++k) sum[0] += term(x[k] - z[k]);
  return (sum[0] + sum[1]) + (sum[2] + sum[3]);
}

}  // namespace

double DistanceOf(Distance distance, std::span<const double> x,
                  std::span<const double> z) noexcept {
  const auto absolute = [](double difference) { return std::abs(difference); };
  const auto square = [](double difference) { return difference * difference; };
  return DistanceOfSum(distance, SumsSquares(distance) ? SumOverClasses(x, z, square)
                                                       : SumOverClasses(x, z, absolute));
}

}  // namespace calibd
