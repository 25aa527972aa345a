#ifndef CALIBD_CORE_SRC_EVIDENCE_EVIDENCE_LAYOUT_H_
#define CALIBD_CORE_SRC_EVIDENCE_EVIDENCE_LAYOUT_H_

#include <array>
#include <cstddef>
#include <cstdint>

#include "calibd/core/experts.h"

namespace calibd {

// Arrays over classes or experts are padded to a multiple of this many values on every CPU.
inline constexpr std::size_t kGroup = 8;
[[nodiscard]] constexpr std::size_t Padded(std::size_t n) {
  return (n + kGroup - 1) / kGroup * kGroup;
}
inline constexpr std::size_t kPaddedExperts = Padded(kExpertCount);

// The whole past, and the recent past with exponentially decaying weights.
inline constexpr std::size_t kAll = 0;
inline constexpr std::size_t kRecent = 1;
inline constexpr std::size_t kPasts = 2;
template <typename T>
using OfPasts = std::array<T, kPasts>;

// A chunk is processed in strips of rows, one row per SIMD lane. A matrix of a strip has one line
// of kStripRows values per class or Fourier term.
inline constexpr std::size_t kStripRows = 8;
// Strips whose witness is computed together, so that A is read once for all of them: one AVX-512
// vector of float. Their matrices have one line of kWitnessRows values per class or Fourier term.
inline constexpr std::size_t kStripsAtOnce = 2;
inline constexpr std::size_t kWitnessRows = kStripsAtOnce * kStripRows;
// A chunk has at most this many rows; see EvidenceProcess.
inline constexpr std::size_t kMostChunkRows = 64;
[[nodiscard]] constexpr std::size_t StripCount(std::size_t rows) {
  return (rows + kStripRows - 1) / kStripRows;
}

// Bins of the log odds: bin b holds [b - 12, b - 11), and the end bins hold all values beyond.
inline constexpr std::size_t kBinCount = 24;

}  // namespace calibd

#endif  // CALIBD_CORE_SRC_EVIDENCE_EVIDENCE_LAYOUT_H_
