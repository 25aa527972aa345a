#include "calibd/core/noise_floor.h"

#include <cblas.h>

#include <algorithm>
#include <array>
#include <boost/math/distributions/gamma.hpp>
#include <cmath>
#include <optional>
#include <vector>

#include "tile_engine.h"
#include "tile_sums.h"
#include "tile_walk.h"

namespace calibd {
namespace {

constexpr std::size_t kClassesPerTurn = 4096;
constexpr double kLevel = 0.95;
constexpr double kNormalQuantile = 1.6448536269514722;  // of kLevel

// An error of the arguments cannot happen below and must not throw.
using Quiet = boost::math::policies::policy<
    boost::math::policies::domain_error<boost::math::policies::ignore_error>,
    boost::math::policies::overflow_error<boost::math::policies::ignore_error>,
    boost::math::policies::evaluation_error<boost::math::policies::ignore_error>>;

double SumOfVariances(const NullMoments& moments) {
  const auto n = static_cast<double>(moments.n);
  return 2 * moments.mean_square / (n * (n - 1));
}

double BiasedQuantile(double mean, double variance) {
  if (!(mean > 0) || !(variance > 0)) return mean;
  const double scale = variance / mean;
  return boost::math::quantile(boost::math::gamma_distribution<double, Quiet>(mean / scale, scale),
                               kLevel);
}

}  // namespace

NoiseFloor NullMoments::Biased() const {
  const auto size = static_cast<double>(n);
  const double shrink = (size - 1) / size;
  const double variance = shrink * shrink * SumOfVariances(*this);
  const double mean = mean_diagonal / size;
  return {mean, std::sqrt(variance), BiasedQuantile(mean, variance)};
}

NoiseFloor NullMoments::Unbiased() const {
  // n SKCE_b = (n - 1) SKCE_uq + mean h_ii.
  const auto size = static_cast<double>(n);
  const NoiseFloor biased = Biased();
  return {0, std::sqrt(SumOfVariances(*this)),
          (size * biased.upper_quantile - mean_diagonal) / (size - 1)};
}

NoiseFloor NullMoments::Block(std::int64_t block_count, std::size_t block_size) const {
  const auto b = static_cast<double>(block_size);
  const double variance = 2 * mean_square / (b * (b - 1)) / static_cast<double>(block_count);
  return {0, std::sqrt(variance), kNormalQuantile * std::sqrt(variance)};
}

absl::StatusOr<NullMoments> EstimateNullMoments(const PredictionBatch& batch, const Kernel& kernel,
                                                const RunControl& control, double weight) {
  const std::size_t n = batch.size();
  const std::size_t m = batch.class_count;
  if (const absl::Status status = CheckSampleSize(n, 2); !status.ok()) return status;
  std::vector<double> squares(batch.probabilities.size());
  NullMoments moments;
  moments.n = n;
  for (std::size_t i = 0; i < n; ++i) {
    double sum = 0;
    for (std::size_t k = i * m; k < (i + 1) * m; ++k) {
      squares[k] = batch.probabilities[k] * batch.probabilities[k];
      sum += squares[k];
    }
    moments.mean_diagonal += weight * (1 - sum) / static_cast<double>(n);
  }
  const TileEngine<double> engine(batch.probabilities, m, kernel);
  struct alignas(64) GroupSum {
    double above_diagonal = 0;
  };
  std::array<GroupSum, kTileGroups> sums;
  const absl::Status status = ForEachTileGroup(n, control, [&](std::size_t group, TileWalk& walk) {
    constexpr std::size_t kValues = kTileSize * kTileSize;
    TileEngine<double>::Scratch scratch;
    std::vector<double> kernels(kValues);
    std::vector<double> products(kValues);
    std::vector<double> cubes(kValues);
    const auto multiply = [&](const Tile& tile, std::span<const double> left,
                              std::span<const double> right, double keep,
                              std::vector<double>& out) {
      // In turns, so that a tile of very many classes can be cancelled.
      for (std::size_t k = 0; k < m; k += kClassesPerTurn) {
        if (walk.cancelled() && walk.cancelled()()) return;
        cblas_dgemm(CblasRowMajor, CblasNoTrans, CblasTrans, static_cast<int>(tile.row_count),
                    static_cast<int>(tile.column_count),
                    static_cast<int>(std::min(kClassesPerTurn, m - k)), 1.0,
                    &left[tile.row_begin * m + k], static_cast<int>(m),
                    &right[tile.column_begin * m + k], static_cast<int>(m), k == 0 ? keep : 1,
                    out.data(), static_cast<int>(kTileSize));
      }
    };
    while (const std::optional<Tile> tile = walk.Next()) {
      engine.Kernels(*tile, scratch, walk.cancelled(), kernels.data());
      multiply(*tile, batch.probabilities, batch.probabilities, 0, products);
      multiply(*tile, squares, batch.probabilities, 0, cubes);
      multiply(*tile, batch.probabilities, squares, 1, cubes);
      for (std::size_t i = 0; i < tile->row_count; ++i) {
        double sum = 0;
        for (std::size_t j = tile->on_diagonal() ? i + 1 : 0; j < tile->column_count; ++j) {
          const std::size_t at = i * kTileSize + j;
          // tr(S_i S_j) = <g, g'> - <g^2, g'> - <g, g'^2> + <g, g'>^2.
          const double trace = products[at] - cubes[at] + products[at] * products[at];
          sum += kernels[at] * kernels[at] * trace;
        }
        sums[group].above_diagonal += sum;
      }
    }
  });
  if (!status.ok()) return status;
  double total = 0;
  for (const GroupSum& sum : sums) total += sum.above_diagonal;
  const auto size = static_cast<double>(n);
  moments.mean_square = std::max(0.0, weight * weight * total / (size * (size - 1) / 2));
  return moments;
}

}  // namespace calibd
