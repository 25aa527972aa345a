#ifndef CALIBD_CORE_SRC_KERNELS_TILE_ENGINE_H_
#define CALIBD_CORE_SRC_KERNELS_TILE_ENGINE_H_

#include <cstddef>
#include <cstdint>
#include <functional>
#include <span>
#include <vector>

#include "calibd/core/kernel.h"
#include "calibd/core/prediction_batch.h"
#include "hwy/aligned_allocator.h"
#include "kernels/tile_micro.h"

namespace calibd {

// Rows and columns of a full tile.
inline constexpr std::size_t kTileSize = 256;

// A rectangle of the symmetric n x n matrix of all pairs, on or above its diagonal.
struct Tile {
  std::size_t row_begin = 0;
  std::size_t row_count = 0;
  std::size_t column_begin = 0;
  std::size_t column_count = 0;

  [[nodiscard]] bool on_diagonal() const noexcept { return row_begin == column_begin; }
};

// Computes tiles of pairwise quantities of a batch with SIMD instructions chosen at
// run time, in T = float or double. Positions are those of order(): observations are
// sorted by label, so that the residual that a row needs for a label is the same for
// most of a tile.
//
// With s_i the sum of row i and d_i = e_{y_i} - g_i, a pair costs three instructions
// a class: TV = (s_i + s_j)/2 - sum_k min(g_ik, g_jk), and <d_i, d_j> = d_i[y_j] -
// sum_k d_ik g_jk. Lanes run over observations, so a distance has the same bits on
// every CPU; products are fused where the CPU can.
//
// Immutable once made. Memory: MemoryBytes().
template <typename T>
class TileEngine {
 public:
  // For distances only: labels are not used, and the order is that of the predictions.
  TileEngine(std::span<const double> predictions, std::size_t class_count, Distance distance);
  // For distances and kernels.
  TileEngine(std::span<const double> predictions, std::size_t class_count, const Kernel& kernel);
  TileEngine(const PredictionBatch& batch, const Kernel& kernel);

  [[nodiscard]] std::size_t size() const noexcept { return order_.size(); }
  // Maps a position to the row of the batch.
  [[nodiscard]] std::span<const std::uint32_t> order() const noexcept { return order_; }
  // h_ii = k(x, x) |d_i|^2 at each position, in double.
  [[nodiscard]] std::span<const double> diagonal() const noexcept { return diagonal_; }

  // The predictions in panels of kPanelWidth positions, [panel][class][position]; 0 for positions
  // after the last one.
  [[nodiscard]] std::span<const T> panels() const noexcept {
    return {panels_.get(), sums_.size() * class_count_};
  }

  // Buffers that a caller reuses: none, but MatrixTileEngine has some.
  struct Scratch {};

  // Sum of h_ij over the pairs of the tile with i < j. Calls `cancelled`, if set, every few
  // milliseconds. Once it is true, returns early with an unspecified value.
  double SumTerms(const Tile& tile, Scratch& scratch, const std::function<bool()>& cancelled) const;
  // Fills `out`, row-major with kTileSize values per row, with h_ij; on the diagonal in both
  // triangles.
  void Terms(const Tile& tile, Scratch& scratch, const std::function<bool()>& cancelled,
             T* out) const;
  // Fills `kernels` with k(g_i, g_j) as well. The tile may be anywhere in the matrix.
  void TermsAndKernels(const Tile& tile, const std::function<bool()>& cancelled, T* out,
                       T* kernels) const;
  // Compute k(g_i, g_j) and the distance instead.
  void Kernels(const Tile& tile, const std::function<bool()>& cancelled, T* out) const;
  void Distances(const Tile& tile, const std::function<bool()>& cancelled, T* out) const;

  [[nodiscard]] static std::size_t MemoryBytes(std::size_t n, std::size_t class_count) noexcept {
    return n * (class_count * sizeof(T) + 3 * sizeof(double));
  }

 private:
  void Pack(std::span<const double> predictions);
  double Run(const Tile& tile, const std::function<bool()>& cancelled, MicroOutput output, T* out,
             T* kernels = nullptr) const;

  std::size_t class_count_;
  Distance distance_;
  // exp2(scale_ * distance) is the kernel.
  T scale_ = 0;
  std::vector<std::uint32_t> order_;
  std::vector<double> diagonal_;
  // By position, padded to complete panels: labels, and sums of rows.
  std::vector<std::int32_t> labels_;
  std::vector<T> sums_;
  // Panels of kPanelWidth observations: [panel][class][observation].
  hwy::AlignedFreeUniquePtr<T[]> panels_;
};

extern template class TileEngine<float>;
extern template class TileEngine<double>;

}  // namespace calibd

#endif  // CALIBD_CORE_SRC_KERNELS_TILE_ENGINE_H_
