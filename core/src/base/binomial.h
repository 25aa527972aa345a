#ifndef CALIBD_CORE_SRC_BASE_BINOMIAL_H_
#define CALIBD_CORE_SRC_BASE_BINOMIAL_H_

#include <cstddef>

namespace calibd {

// Lower and upper end of a range.
struct Range {
  double lower = 0;
  double upper = 0;
};

// Range [a, b] of the number of successes in n >= 1 trials of mean success
// probability p in [0, 1], with P(a <= X <= b) >= level in (0, 1). a is the
// (1 - level) / 2 quantile of Binomial(n, p) or floor(n p) if less, b the (1 + level)
// / 2 quantile or ceil(n p) if more. Since a <= n p <= b, it also holds when the
// trials differ in their probabilities: Hoeffding, Ann. Math. Stat. 27 (1956) 713,
// Theorem 5.
[[nodiscard]] Range SuccessRange(std::size_t n, double p, double level);

// Clopper-Pearson interval of a success probability, from the quantiles of beta
// distributions: Biometrika 26 (1934) 404. 0 <= successes <= n, n >= 1.
[[nodiscard]] Range ClopperPearson(std::size_t successes, std::size_t n, double level);

}  // namespace calibd

#endif  // CALIBD_CORE_SRC_BASE_BINOMIAL_H_
