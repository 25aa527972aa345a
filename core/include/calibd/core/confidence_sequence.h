#ifndef CALIBD_CORE_CONFIDENCE_SEQUENCE_H_
#define CALIBD_CORE_CONFIDENCE_SEQUENCE_H_

#include <cstdint>
#include <numbers>
#include <optional>

#include "calibd/core/moments.h"
#include "calibd/core/p_value.h"

namespace calibd {

// Lower confidence bounds of the calibration error, from the projections u_t of each residual on
// the witness from the past (see EvidenceReading). For independent and identically distributed
// observations
//   E[u_t | past] = <E d phi', A_{t-1}> / |A_{t-1}| <= |E d phi'|_F = KCE
// by the Cauchy-Schwarz inequality, where KCE = sqrt(SKCE) is the calibration error for the kernel
// phi'phi. The KCE for the kernel that phi'phi approximates differs by the error of 64
// frequencies: on the reference models with 2 to 100 classes the ratio of the two is .90 to 1.05.

// Upper bound of |u_t|.
inline constexpr double kProjectionBound = std::numbers::sqrt2;

// U_t, an upper confidence sequence of the mean of bounded values, such as those of an estimator's
// disjoint blocks: P(U_t >= mean at all t) >= 1 - alpha, exactly, at all numbers of values t
// simultaneously. The mean at t is the average of E[x_i | x_1, ..., x_{i-1}] over i <= t.
//   sum_j w_j exp(l_j t (U_t - mean x) / b - psi(l_j) sum x^2 / b^2) = 1 / alpha
//   psi(l) = -log(1 - l) - l,  l_j = 3/4 2^-j,  w_j = 1 / ((j+1)(j+2)),  j = 0, ..., 31
// For each l in [0, 1) the exponential is at most a product of e-values, as exp(l z - psi(l) z^2)
// <= 1 + l z for z = -x / b >= -1. The sequence does not become too narrow before the first
// deviation: its distance from the mean is at least b log(1 / alpha) / t, and with many values some
// sqrt(2 log(log^2 t / alpha) mean x^2 / t).
// Sources: Howard, Ramdas, McAuliffe & Sekhon, Ann. Statist. 49 (2021) 1055, Theorem 4, with 0 as
// the prediction of each value; Fan, Grama & Liu, Electron. J. Probab. 20 (2015), Lemma 4.1.
//
// bound: b > 0, an upper bound of the values. alpha: in (0, 1). The result is at most b; unset
// without values.
// Merge law: RunningMoments::Merge of parts that share no observation.
[[nodiscard]] std::optional<double> UpperConfidenceSequence(const RunningMoments& values,
                                                            double bound, double alpha) noexcept;

// The lower confidence sequence: -U_t of the negated values. L_t of projections is a lower
// confidence sequence of KCE; it may be negative, and SKCE >= max(0, L_t)^2.
//
// bound: values are at least -bound. alpha: in (0, 1). The result is at least -bound; unset without
// values.
[[nodiscard]] std::optional<double> LowerConfidenceSequence(const RunningMoments& values,
                                                            double bound, double alpha) noexcept;

// The radius of an asymptotic confidence sequence of the mean of values without a known bound,
//   s sqrt(2 (n r^2 + 1) / (n r)^2 log(sqrt(n r^2 + 1) / alpha)),  r^2 = (2 L + log(2 L + 1)) /
//   n_0,
// with the sample standard deviation s, L = log(1 / alpha), and n_0 = 1000, where it is narrowest
// compared with an interval for one look: 1.55 times as wide for alpha = 0.05. It covers the
// average of E[x_i | x_1, ..., x_{i-1}], i <= n, at all n >= m at once with a probability that
// tends to at least 1 - alpha for large m, if the values have more than two moments. Source:
// Waudby-Smith, Arbour, Sinha, Kennedy & Ramdas, Ann. Statist. 52 (2024) 2613, Theorem 2.2, and
// Sec. 2 for values that depend on the past.
//
// alpha: in (0, 1). Unset for fewer than two values.
[[nodiscard]] std::optional<double> AsymptoticConfidenceRadius(const RunningMoments& values,
                                                               double alpha) noexcept;

// The sum A of x_i = phi(g_i) d_i', i <= count, where |phi| = 1 and |d_i|^2 <= 2.
struct WitnessNorm {
  std::int64_t count = 0;
  // |A|_F^2 and sum |d_i|^2.
  double norm2 = 0;
  double square_sum = 0;
};

// An upper confidence sequence K_t of KCE for the same kernel phi'phi as L_t. For one process, K_t
// is never below L_t, at any levels: |A_t| >= <A_t, A_{t-1}> / |A_{t-1}| = |A_{t-1}| + u_t, and so
// the mean of u_t is at most |A_t| / t. For combined parts, whose sums A may cancel, K_t may be
// below L_t.
//   K_t = |A|_F / t + c X / t,  sum_j w_j exp(l_j X - psi(l_j) t s_t / c^2) = 2 / alpha_1
//   c = 2 sqrt 2,  psi(l) = e^l - 1 - l,  l_j = 3 2^-j,  w_j as above,
// where s_t is the upper confidence sequence at alpha / 10 of the mean of |d_i|^2, which is in [0,
// 2], so that its square is at most twice its value, and alpha_1 = 9/10 alpha. P(K_t >= KCE at all
// t) >= 1 - alpha, exactly; KCE is |sum E[x_i | past]|_F / t, which equals the KCE of the
// distribution for independent and identically distributed observations. For z_i = x_i - E[x_i |
// past], |z_i| <= c, the product
//   cosh(l |sum z_i| / c) / prod (1 + E[e^{l |z_i| / c} - 1 - l |z_i| / c | past])
// is a supermartingale in a Hilbert space; each divisor is at most exp(psi(l) E[|z_i|^2 | past] /
// c^2), and E[|z_i|^2 | past] at most that of |d_i|^2. Source: Pinelis, Ann. Probab. 22 (1994)
// 1679, the proof of Theorem 3.1.
//
// alpha: in (0, 1). The result is at most sqrt 2; unset without observations.
[[nodiscard]] std::optional<double> KceUpperConfidenceSequence(const WitnessNorm& sum,
                                                               double alpha) noexcept;

// The bound for vectors x_i with |x_i|^2 <= largest_square instead of 2: an upper confidence
// sequence of |sum E[x_i | past]| / t with c = 2 sqrt(largest_square). The result is at most
// sqrt(largest_square).
[[nodiscard]] std::optional<double> NormUpperConfidenceSequence(const WitnessNorm& sum,
                                                                double largest_square,
                                                                double alpha) noexcept;

// Test of "the model is calibrated" for ONE look at a chosen n, without a bootstrap:
//   Z = sum_t u_t / sqrt(sum_t sigma_t^2),  sigma_t^2 = Var(u_t | g_t, past) if calibrated,
// is asymptotically standard normal by the martingale central limit theorem; large where the
// model is not calibrated. Source: the studentised statistic of Shekhar & Ramdas,
// arXiv:2112.09162, with the variance that the predictions imply.
//
// standard_deviation: sqrt(sum sigma_t^2). z is unset and p_value 1 or 0, by the sign of the
// sum, where that is 0. The result is unset without projections.
[[nodiscard]] std::optional<NormalTest> TestProjections(const RunningMoments& projections,
                                                        double projection_variance) noexcept;

}  // namespace calibd

#endif  // CALIBD_CORE_CONFIDENCE_SEQUENCE_H_
