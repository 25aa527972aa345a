#ifndef CALIBD_CORE_SRC_BASE_CATEGORICAL_H_
#define CALIBD_CORE_SRC_BASE_CATEGORICAL_H_

#include <cstddef>
#include <cstdint>
#include <span>

#include "base/rng.h"

namespace calibd {

// Draws a class with probabilities p of sum ~1, never one with probability 0. Cost: O(m).
inline std::int32_t Categorical(std::span<const double> p, Rng& rng) noexcept {
  const double u = rng.Uniform();
  double cumulative = 0;
  std::size_t last = 0;
  for (std::size_t k = 0; k < p.size(); ++k) {
    if (p[k] <= 0) continue;
    cumulative += p[k];
    last = k;
    if (u < cumulative) break;
  }
  return static_cast<std::int32_t>(last);
}

}  // namespace calibd

#endif  // CALIBD_CORE_SRC_BASE_CATEGORICAL_H_
