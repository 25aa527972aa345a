#ifndef CALIBD_CORE_SRC_EVIDENCE_WITNESS_SIMD_H_
#define CALIBD_CORE_SRC_EVIDENCE_WITNESS_SIMD_H_

#include <cstddef>
#include <cstdint>

#include "evidence/evidence_layout.h"

namespace calibd {

// Matrix products with the sums A of residuals, summed by similarity. A has a line of kFourierCount
// values per class. A last line S sums the Fourier terms themselves: its residual is always 1.
// Highway selects the instructions at run time; the last bits differ between CPUs.

// F = A phi of each row. Each value is summed in the order of the Fourier terms, so that its bits
// do not depend on the other rows. F may be any function of the past and of the prediction: it is
// computed in single precision, and the payoff of the bets in double precision.
struct WitnessTask {
  std::size_t lines;
  const float* sums;
  // The first and the last row that is needed, plus 1.
  std::size_t first;
  std::size_t last;
  // kFourierCount x kWitnessRows.
  const float* fourier;
  // lines x kWitnessRows.
  float* out;
};
void ComputeWitness(const WitnessTask& task) noexcept;

// Transposes rows first .. last - 1, and possibly rows near them. in: kWitnessRows x kFourierCount.
// out: kFourierCount x kWitnessRows.
void TransposeFourier(const float* in, std::size_t first, std::size_t last, float* out) noexcept;

// Adds the rows of a chunk: A += D' Phi to the whole past, and A <- retention A + D' Phi to the
// recent past. The products of a chunk are single-precision sums. The whole past is a
// double-precision sum, and a copy in single precision for the witness.
struct ChunkTask {
  std::size_t lines;
  std::size_t rows;
  // rows x kFourierCount.
  const float* fourier;
  // The negated residuals: strips x lines x kStripRows.
  const double* negated;
  double retention;
  double* sums;
  OfPasts<float*> witness;
};
// Updates lines first .. last - 1. The bits do not depend on how the lines are split into calls.
void AddChunk(const ChunkTask& task, std::size_t first, std::size_t last) noexcept;

// values: count values, a multiple of 2 kGroup.
[[nodiscard]] double SumOfSquares(const double* values, std::size_t count) noexcept;

// The growth of the square of |B|, B = sum_s phi_s d_s' over the rows s of a chunk, when `row` is
// added to the rows before it: the sum of <phi_s, phi_row> <d_s, d_row>, twice for the rows before
// it.
struct GrowthTask {
  std::size_t row;
  std::size_t class_count;
  // See ChunkTask.
  std::size_t lines;
  const float* fourier;
  // Predictions before smoothing: strips x lines x kStripRows.
  const double* given;
  const std::int32_t* labels;
};
[[nodiscard]] double SquareGrowth(const GrowthTask& task) noexcept;

}  // namespace calibd

#endif  // CALIBD_CORE_SRC_EVIDENCE_WITNESS_SIMD_H_
