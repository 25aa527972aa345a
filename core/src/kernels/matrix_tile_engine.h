#ifndef CALIBD_CORE_SRC_KERNELS_MATRIX_TILE_ENGINE_H_
#define CALIBD_CORE_SRC_KERNELS_MATRIX_TILE_ENGINE_H_

#include <cstddef>
#include <cstdint>
#include <functional>
#include <span>
#include <vector>

#include "calibd/core/matrix_kernel.h"
#include "calibd/core/prediction_batch.h"
#include "kernels/tile_engine.h"

namespace calibd {

// Computes the tiles of H for a matrix-valued kernel: for each term, the tile of its real-valued
// kernel multiplied elementwise by the tile of products of F'd. The interface is that of
// TileEngine; the order is that of the batch.
class MatrixTileEngine {
 public:
  MatrixTileEngine(const PredictionBatch& batch, const MatrixKernel& kernel);

  [[nodiscard]] std::size_t size() const noexcept { return order_.size(); }
  [[nodiscard]] std::span<const std::uint32_t> order() const noexcept { return order_; }
  [[nodiscard]] std::span<const double> diagonal() const noexcept { return diagonal_; }

  struct Scratch {
    std::vector<double> kernel;
    std::vector<double> product;
    std::vector<double> packed;
    std::vector<double> terms;
  };

  double SumTerms(const Tile& tile, Scratch& scratch, const std::function<bool()>& cancelled) const;
  void Terms(const Tile& tile, Scratch& scratch, const std::function<bool()>& cancelled,
             float* out) const;

 private:
  struct Part {
    TileEngine<double> kernel;
    std::size_t rank;
    // F'd of each observation, n x rank.
    std::vector<double> residuals;
  };

  // Fills scratch.terms.
  void Fill(const Tile& tile, Scratch& scratch, const std::function<bool()>& cancelled) const;

  std::vector<std::uint32_t> order_;
  std::vector<double> diagonal_;
  std::vector<Part> parts_;
};

}  // namespace calibd

#endif  // CALIBD_CORE_SRC_KERNELS_MATRIX_TILE_ENGINE_H_
