#ifndef CALIBD_CORE_SRC_BASE_NORMAL_QUANTILE_H_
#define CALIBD_CORE_SRC_BASE_NORMAL_QUANTILE_H_

#include <boost/math/special_functions/erf.hpp>
#include <numbers>

namespace calibd {

// Phi^-1(p) for p in (0, 1).
[[nodiscard]] inline double NormalQuantile(double p) {
  return p < 0.5 ? -std::numbers::sqrt2 * boost::math::erfc_inv(2 * p)
                 : std::numbers::sqrt2 * boost::math::erfc_inv(2 * (1 - p));
}

}  // namespace calibd

#endif  // CALIBD_CORE_SRC_BASE_NORMAL_QUANTILE_H_
