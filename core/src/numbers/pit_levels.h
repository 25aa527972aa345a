#ifndef CALIBD_CORE_SRC_NUMBERS_PIT_LEVELS_H_
#define CALIBD_CORE_SRC_NUMBERS_PIT_LEVELS_H_

#include <array>
#include <cstddef>

namespace calibd {

// The equal bins of the probability integral transform.
inline constexpr std::size_t kQuantileBins = 20;
// The levels i / 20, i = 1 .. 19, of the probability integral transform.
inline constexpr std::size_t kLevels = kQuantileBins - 1;
// The weights of the rows between the levels.
using PitShares = std::array<double, kLevels + 1>;

// The index of the first level that is at least u, counted from 0; kLevels if none is. The levels
// are those that the decimal numbers .05, .10, ... are read as.
inline std::size_t FirstLevel(double u) noexcept {
  std::size_t level = 0;
  while (level < kLevels && u > static_cast<double>(level + 1) / kQuantileBins) ++level;
  return level;
}

// The mean square of the differences between the share of the weight up to each level and it.
inline double PitLevelError(const PitShares& weights, double total) noexcept {
  double cumulated = 0;
  double sum = 0;
  for (std::size_t level = 0; level < kLevels; ++level) {
    cumulated += weights[level];
    const double difference = cumulated / total - static_cast<double>(level + 1) / kQuantileBins;
    sum += difference * difference;
  }
  return sum / kLevels;
}

}  // namespace calibd

#endif  // CALIBD_CORE_SRC_NUMBERS_PIT_LEVELS_H_
