#ifndef CALIBD_CORE_SRC_KERNELS_PAIR_TERMS_H_
#define CALIBD_CORE_SRC_KERNELS_PAIR_TERMS_H_

#include <array>
#include <cstddef>
#include <cstdint>
#include <span>

#include "calibd/core/distance.h"
#include "calibd/core/prediction_batch.h"

namespace calibd {

// (e_{y_i} - g_i)' (e_{y_j} - g_j), which SkceTerm multiplies by the kernel. Cost: O(m).
[[nodiscard]] double ResidualProduct(std::span<const double> g_i, std::int32_t y_i,
                                     std::span<const double> g_j, std::int32_t y_j) noexcept;

// tr(S_i S_j), see NullMoments; 0 if rounding makes it negative. Cost: O(m).
[[nodiscard]] double NullTrace(std::span<const double> g_i, std::span<const double> g_j) noexcept;

inline constexpr std::size_t kMaxPairs = 32;

// Terms of pairs of labelled predictions.
struct PairTerms {
  std::array<double, kMaxPairs> distances;
  std::array<double, kMaxPairs> residual_products;
  std::array<double, kMaxPairs> null_traces;
};

// These compute one pair per lane. Each value has the bits of DistanceOf, ResidualProduct and
// NullTrace for this pair on every CPU. Cost: O(m) per pair.

// Pair p consists of rows p and p + 1 of the batch, which has 2 to kMaxPairs + 1 rows.
void ComputeNeighbourTerms(const PredictionBatch& batch, Distance distance,
                           PairTerms& terms) noexcept;
// Pair p consists of rows 2 p and 2 p + 1 of the batch, which has 2, 4, ... 2 kMaxPairs rows.
// Leaves out the null traces.
void ComputeSeparateTerms(const PredictionBatch& batch, Distance distance,
                          PairTerms& terms) noexcept;

}  // namespace calibd

#endif  // CALIBD_CORE_SRC_KERNELS_PAIR_TERMS_H_
