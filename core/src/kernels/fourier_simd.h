#ifndef CALIBD_CORE_SRC_KERNELS_FOURIER_SIMD_H_
#define CALIBD_CORE_SRC_KERNELS_FOURIER_SIMD_H_

#include <cstddef>

namespace calibd {

// The loops of FourierBasis, with instructions that Highway selects at run time. The last bits of
// sums differ between CPUs.

// For each row: phases[r] += sum_k g[k] frequencies[k][r], k ascending.
struct PhaseTask {
  std::size_t rows;
  // rows x class_count, beginning at these `count` classes.
  const double* probabilities;
  std::size_t class_count;
  std::size_t count;
  const double* frequencies;
  // rows x kFrequencyCount.
  double* phases;
};
void AddPhases(const PhaseTask& task) noexcept;
// Converts rows x kFrequencyCount phases in turns to rows x kFourierCount Fourier terms. Whole and
// quarter turns are removed in double precision; sine and cosine are computed in that of
// `terms`.
void PhasesToFourier(std::size_t rows, const double* phases, double* terms) noexcept;
void PhasesToFourier(std::size_t rows, const double* phases, float* terms) noexcept;

}  // namespace calibd

#endif  // CALIBD_CORE_SRC_KERNELS_FOURIER_SIMD_H_
