#ifndef CALIBD_TESTS_STATISTICAL_LEVEL_BOUND_H_
#define CALIBD_TESTS_STATISTICAL_LEVEL_BOUND_H_

#include <cmath>

namespace calibd::testing {

// The significance level of the simulated tests.
inline constexpr double kLevel = 0.05;

// With S simulations the number of rejections of a test of size p is Binomial(S, p). Returns 5
// standard deviations of its share, which gives a false-failure probability below 1e-6.
inline double Margin(double rate, int simulations) {
  return 5 * std::sqrt(rate * (1 - rate) / simulations);
}

}  // namespace calibd::testing

#endif  // CALIBD_TESTS_STATISTICAL_LEVEL_BOUND_H_
