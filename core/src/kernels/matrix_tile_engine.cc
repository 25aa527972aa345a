#include "kernels/matrix_tile_engine.h"

#include <algorithm>
#include <numeric>

#include "base/matrix_product.h"

namespace calibd {

MatrixTileEngine::MatrixTileEngine(const PredictionBatch& batch, const MatrixKernel& kernel)
    : order_(batch.size()), diagonal_(batch.size()) {
  std::iota(order_.begin(), order_.end(), 0u);
  for (const MatrixKernel::Factor& factor : kernel.factors()) {
    parts_.push_back({TileEngine<double>(batch.probabilities, batch.class_count, factor.kernel),
                      factor.rank, std::vector<double>(batch.size() * factor.rank)});
  }
  std::vector<double> projected(kernel.rank());
  for (std::size_t i = 0; i < batch.size(); ++i) {
    kernel.Project(batch.row(i), batch.labels[i], projected);
    for (const double value : projected) diagonal_[i] += value * value;
    auto from = projected.begin();
    for (Part& part : parts_) {
      std::copy_n(from, part.rank,
                  part.residuals.begin() + static_cast<std::ptrdiff_t>(i * part.rank));
      from += static_cast<std::ptrdiff_t>(part.rank);
    }
  }
}

void MatrixTileEngine::Fill(const Tile& tile, Scratch& scratch,
                            const std::function<bool()>& cancelled) const {
  constexpr std::size_t kValues = kTileSize * kTileSize;
  scratch.kernel.resize(kValues);
  scratch.product.resize(kValues);
  scratch.terms.assign(kValues, 0);
  for (const Part& part : parts_) {
    part.kernel.Kernels(tile, cancelled, scratch.kernel.data());
    Multiply(MatrixProduct<double>{.rows = tile.row_count,
                                   .columns = tile.column_count,
                                   .depth = part.rank,
                                   .a = &part.residuals[tile.row_begin * part.rank],
                                   .a_stride = part.rank,
                                   .b = &part.residuals[tile.column_begin * part.rank],
                                   .b_row_stride = 1,
                                   .b_column_stride = part.rank,
                                   .c = scratch.product.data(),
                                   .c_stride = kTileSize},
             scratch.packed);
    for (std::size_t i = 0; i < tile.row_count; ++i) {
      for (std::size_t j = i * kTileSize; j < i * kTileSize + tile.column_count; ++j) {
        scratch.terms[j] += scratch.kernel[j] * scratch.product[j];
      }
    }
  }
}

double MatrixTileEngine::SumTerms(const Tile& tile, Scratch& scratch,
                                  const std::function<bool()>& cancelled) const {
  Fill(tile, scratch, cancelled);
  double sum = 0;
  for (std::size_t i = 0; i < tile.row_count; ++i) {
    const double* row = &scratch.terms[i * kTileSize];
    for (std::size_t j = tile.on_diagonal() ? i + 1 : 0; j < tile.column_count; ++j) sum += row[j];
  }
  return sum;
}

void MatrixTileEngine::Terms(const Tile& tile, Scratch& scratch,
                             const std::function<bool()>& cancelled, float* out) const {
  Fill(tile, scratch, cancelled);
  std::transform(scratch.terms.begin(), scratch.terms.end(), out,
                 [](double term) { return static_cast<float>(term); });
}

}  // namespace calibd
