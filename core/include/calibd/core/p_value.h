#ifndef CALIBD_CORE_P_VALUE_H_
#define CALIBD_CORE_P_VALUE_H_

#include <cstddef>
#include <cstdint>
#include <optional>

#include "calibd/core/moments.h"

namespace calibd {

// Tests of the null hypothesis "the model is calibrated" that need only an
// estimate. Every p-value here is for ONE look at a chosen n. Source: Widmann,
// Lindsten & Zachariah, NeurIPS 2019, Sec. 6, App. G and H.

// Upper bound of the p-value of SKCE_b that holds for every n and distribution
// (Lemma 2, Corollary H.1): exp(-max(0, sqrt(n SKCE_b / B) - 1)^2 / 2), in (0, 1].
// bound: B of the kernel, see Kernel::DistributionFreeBound.
[[nodiscard]] double BiasedPValueUpperBound(double skce_biased, std::size_t n,
                                            double bound) noexcept;

// The bound for SKCE_uq and SKCE_ul (Corollaries H.2 and H.3): 1 if skce <= 0, else
// exp(-floor(n/2) skce^2 / (2 B^2)), in (0, 1].
[[nodiscard]] double UnbiasedPValueUpperBound(double skce, std::size_t n, double bound) noexcept;

// The bound for the block estimator: floor(n/b) floor(b/2) replaces floor(n/2).
[[nodiscard]] double BlockPValueUpperBound(double skce, std::int64_t block_count,
                                           std::size_t block_size, double bound) noexcept;

// Half the width of a two-sided interval around KCE_hat = sqrt(SKCE_b) that holds for
// every n and distribution (Theorem H.1): KCE is within 2 sqrt(B / n) + e of KCE_hat
// with probability at least `level` = 1 - exp(-e^2 n / (2 B)). n >= 1, level in (0, 1).
[[nodiscard]] double KceDeviation(std::size_t n, double bound, double level) noexcept;

// Upper tail of the standard normal distribution, without cancellation. At least the smallest
// normal double, so that no p-value is 0.
[[nodiscard]] double NormalUpperTail(double z) noexcept;

// The asymptotic test of the linear and the block estimator (Lemma 3,
// Corollary G.3): z = sqrt(N) mean / sd over N block values, p = upper normal tail.
struct NormalTest {
  // Divisor N - 1; > 0.
  double standard_deviation = 0;
  double z = 0;
  // In (0, 1].
  double p_value = 1;
};

// Unset if there are fewer than two values, or if their deviation is 0.
[[nodiscard]] std::optional<NormalTest> TestMeanIsPositive(const RunningMoments& moments) noexcept;

// One-sided asymptotic lower confidence bound of SKCE from the block values: mean - z_{level} sd /
// sqrt(N). level in (0.5, 1), e.g. .95. Unset if there are fewer than two values.
[[nodiscard]] std::optional<double> LowerConfidenceBound(const RunningMoments& moments,
                                                         double level);

// Number of block values below which answers contain no test and no bound, because their mean is
// not close enough to normal. Measured size of the test at level .05 with blocks of 100
// observations: .135 with 2 blocks, .063 with 5, .052 with 10; at level 1e-6 it is .057 with 2.
inline constexpr std::int64_t kMinTestedBlocks = 30;

// The test and the 95 % bound of at least kMinTestedBlocks values.
struct BlockTest {
  double z = 0;
  // In (0, 1].
  double p_value = 1;
  double skce_lower_bound = 0;
};

// Unset if there are fewer than kMinTestedBlocks values, or if their deviation is 0.
[[nodiscard]] std::optional<BlockTest> TestBlocks(const RunningMoments& moments);

}  // namespace calibd

#endif  // CALIBD_CORE_P_VALUE_H_
