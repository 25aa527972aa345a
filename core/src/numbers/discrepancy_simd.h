#ifndef CALIBD_CORE_SRC_NUMBERS_DISCREPANCY_SIMD_H_
#define CALIBD_CORE_SRC_NUMBERS_DISCREPANCY_SIMD_H_

#include <cstddef>

namespace calibd {

// The loops of ForecastDiscrepancy over Fourier terms, with instructions that Highway selects at
// run time. The last bits differ between CPUs.

// terms -= exp(-squares v) means for each row, where row i has the variance v = variances[i].
// squares: kFrequencyCount values >= 0. variances: >= 0, at most 1e300. means, terms: rows x
// kFourierCount.
void SubtractDamped(std::size_t rows, const double* variances, const double* squares,
                    const double* means, double* terms) noexcept;

// out -= scale (sum of the rows). terms: rows x kFourierCount. out: kFourierCount.
void SubtractScaled(std::size_t rows, const double* terms, double scale, double* out) noexcept;

// <residual, sums>, |residual|^2 and |sums|^2 of the sums before they grow.
struct SumsGrowth {
  double product;
  double residual_square;
  double square;
};
// sums += residual. Both have kFourierCount values.
[[nodiscard]] SumsGrowth AddResidual(const double* residual, double* sums) noexcept;

}  // namespace calibd

#endif  // CALIBD_CORE_SRC_NUMBERS_DISCREPANCY_SIMD_H_
