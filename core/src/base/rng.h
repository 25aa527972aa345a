#ifndef CALIBD_CORE_SRC_BASE_RNG_H_
#define CALIBD_CORE_SRC_BASE_RNG_H_

#include <cmath>
#include <cstdint>
#include <numbers>

namespace calibd {

// SplitMix64 (Steele, Lea & Flood, OOPSLA 2014): the same on every platform, and cheap to
// initialise, so that each replicate has its own stream.
class Rng {
 public:
  explicit Rng(std::uint64_t seed) noexcept : state_(seed) {}
  // The streams of a seed do not depend on the order in which they are used.
  Rng(std::uint64_t seed, std::uint64_t stream) noexcept : state_(seed) {
    state_ = Next() ^ (stream * 0xD1342543DE82EF95ULL);
    state_ = Next();
  }

  std::uint64_t Next() noexcept {
    state_ += 0x9E3779B97F4A7C15ULL;
    std::uint64_t z = state_;
    z = (z ^ (z >> 30)) * 0xBF58476D1CE4E5B9ULL;
    z = (z ^ (z >> 27)) * 0x94D049BB133111EBULL;
    return z ^ (z >> 31);
  }

  // In (0, 1), without the ends: its logarithm is finite.
  double Uniform() noexcept { return (static_cast<double>(Next() >> 12) + 0.5) * 0x1p-52; }

  // In [0, n). Not exactly uniform: a value's probability is off by up to 2^-32, far below the
  // resolution of the resampling tests.
  std::uint32_t Below(std::uint32_t n) noexcept {
    return static_cast<std::uint32_t>(((Next() >> 32) * n) >> 32);
  }

 private:
  std::uint64_t state_;
};

[[nodiscard]] inline double StandardNormal(Rng& rng) noexcept {
  const double radius = std::sqrt(-2 * std::log(rng.Uniform()));
  return radius * std::cos(2 * std::numbers::pi * rng.Uniform());
}

}  // namespace calibd

#endif  // CALIBD_CORE_SRC_BASE_RNG_H_
