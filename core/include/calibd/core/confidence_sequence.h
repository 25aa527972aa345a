#ifndef CALIBD_CORE_CONFIDENCE_SEQUENCE_H_
#define CALIBD_CORE_CONFIDENCE_SEQUENCE_H_

#include <cstdint>
#include <optional>

#include "calibd/core/hypothesis_test.h"
#include "calibd/core/running_skce.h"

namespace calibd {

// How large the calibration error is at least, from the projections u_t of each residual on
// the witness that was learnt before it (see EvidenceReading). For independent observations
// of one distribution
//   E[u_t | past] = <E d phi', A_{t-1}> / |A_{t-1}| <= |E d phi'|_F = KCE
// by the Cauchy-Schwarz inequality, where KCE = sqrt(SKCE) is that of the kernel phi'phi.
// That of the kernel which phi'phi approximates differs by the error of 64 random features:
// on the reference models with 2 to 100 classes the ratio of the two is .90 to 1.01.

// Projections that the bound needs, for its asymptotics.
inline constexpr std::int64_t kConfidenceBurnIn = 100;
// Count of predictions where the bound is tightest.
inline constexpr double kConfidenceOptimum = 2000;

// L_t, a lower confidence sequence of KCE: P(L_t <= KCE at all t >= 100) >= 1 - alpha,
// asymptotically, however often one looks.
//   L_t = mean u - sd sqrt(2 (t rho^2 + 1) / (t^2 rho^2) log(1 + sqrt(t rho^2 + 1) / (2 alpha)))
//   rho^2 = (-2 log 2 alpha + log(1 - 2 log 2 alpha)) / 2000
// with the sample deviation, divisor t - 1. It may be negative; SKCE >= max(0, L_t)^2.
// Source: Waudby-Smith, Arbour, Sinha, Kennedy & Ramdas, arXiv:2103.06476, the one-sided
// asymptotic confidence sequence.
//
// alpha: in (0, 0.25]. Unset with fewer than 100 projections.
[[nodiscard]] std::optional<double> LowerConfidenceSequence(const RunningMoments& projections,
                                                            double alpha) noexcept;

// U_t, an upper confidence sequence of the mean of independent values of one distribution, such
// as the values of an estimator's disjoint blocks: P(U_t >= mean at all t >= 100) >= 1 - alpha,
// asymptotically, however often one looks. The same bound as above of the values' negatives.
//
// alpha: in (0, 0.25]. Unset with fewer than 100 values.
[[nodiscard]] std::optional<double> UpperConfidenceSequence(const RunningMoments& values,
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
