#ifndef CALIBD_CORE_SRC_SCORES_CONTINUATIONS_H_
#define CALIBD_CORE_SRC_SCORES_CONTINUATIONS_H_

#include <algorithm>
#include <array>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <numbers>
#include <optional>

#include "base/rng.h"
#include "calibd/core/rows_until_decided.h"

namespace calibd {

inline constexpr std::size_t kContinuations = 100;

// Standard Normal numbers of a continuation, by pairs (Box & Muller, Ann. Math. Stat. 29 (1958)
// 610): the logarithm and the root are used twice.
class ContinuationNoise {
 public:
  explicit ContinuationNoise(std::size_t continuation) noexcept : rng_(kSeed, continuation) {}

  double Next() noexcept {
    if (has_spare_) {
      has_spare_ = false;
      return spare_;
    }
    const double radius = std::sqrt(-2 * std::log(rng_.Uniform()));
    const double angle = 2 * std::numbers::pi * rng_.Uniform();
    spare_ = radius * std::sin(angle);
    has_spare_ = true;
    return radius * std::cos(angle);
  }

 private:
  static constexpr std::uint64_t kSeed = 20201;

  Rng rng_;
  double spare_ = 0;
  bool has_spare_ = false;
};

// The rows after the present ones that a continuation adds at once.
struct ContinuationStep {
  // Number of rows at its end, and the number of rows that it adds.
  double rows = 0;
  double added = 0;
};

// The range of the rows at which continuations are decided, see rows_until_decided.h. count: rows
// at present, at least one. least_rows: rows before the first decision. begin(step) is called
// before each step. advance(i, step) adds its rows to continuation i and says whether it is decided
// then.
template <typename Begin, typename Advance>
[[nodiscard]] std::optional<RowsUntilDecided> RangeOfDecisions(std::int64_t count,
                                                               std::int64_t least_rows,
                                                               const Begin& begin,
                                                               const Advance& advance) {
  constexpr int kSteps = 54;
  constexpr double kGrowth = 1.07;
  constexpr std::size_t kOutside = kContinuations / 20;
  constexpr double kMostRatio = 4;

  std::array<bool, kContinuations> decided{};
  std::size_t decisions = 0;
  // The step with the first decision inside the range: the rows before it and at its end.
  std::optional<double> lower;
  double first = 0;
  const auto present = static_cast<double>(count);
  double rows = present;
  for (int s = 0; s < kSteps; ++s) {
    ContinuationStep step;
    step.rows = std::ceil(std::max(rows * kGrowth, static_cast<double>(least_rows)));
    step.added = step.rows - rows;
    begin(step);
    for (std::size_t i = 0; i < kContinuations; ++i) {
      if (decided[i] || !advance(i, step)) continue;
      decided[i] = true;
      ++decisions;
    }
    if (!lower.has_value() && decisions > kOutside) {
      lower = std::max(rows, static_cast<double>(least_rows - 1));
      first = step.rows;
    }
    if (lower.has_value() && step.rows > kMostRatio * first) return std::nullopt;
    if (decisions >= kContinuations - kOutside) {
      return RowsUntilDecided{.lower = static_cast<std::int64_t>(*lower - present) + 1,
                              .upper = static_cast<std::int64_t>(step.rows - present)};
    }
    rows = step.rows;
  }
  return std::nullopt;
}

}  // namespace calibd

#endif  // CALIBD_CORE_SRC_SCORES_CONTINUATIONS_H_
