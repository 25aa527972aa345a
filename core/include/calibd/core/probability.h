#ifndef CALIBD_CORE_PROBABILITY_H_
#define CALIBD_CORE_PROBABILITY_H_

#include <cstddef>
#include <span>

// The rule for numbers that are a rounding away from a probability. The server, the C++ SDK and the
// offline evaluation use it; it needs only the standard library.
namespace calibd {

// The largest distance from [0, 1] that is taken for rounding. A float32 near 1 is off by up to
// 6e-8, and a sum of some of them, as in a mean over an ensemble, by a few times as much. To refuse
// such rows would leave out the most certain ones.
inline constexpr double kProbabilityRounding = 1e-6;

// Returns 0 or 1 for a number outside [0, 1] by at most kProbabilityRounding. Every other number
// stays as it is, NaN too.
[[nodiscard]] constexpr double RoundToProbability(double value) noexcept {
  if (value < 0 && value >= -kProbabilityRounding) return 0;
  if (value > 1 && value <= 1 + kProbabilityRounding) return 1;
  return value;
}

// Applies RoundToProbability to each value, and returns how many it changed. Cost: O(n).
inline std::size_t RoundToProbabilities(std::span<double> values) noexcept {
  std::size_t changed = 0;
  for (double& value : values) {
    const double rounded = RoundToProbability(value);
    // NaN stays NaN, and is not counted.
    if (rounded < value || rounded > value) ++changed;
    value = rounded;
  }
  return changed;
}

}  // namespace calibd

#endif  // CALIBD_CORE_PROBABILITY_H_
