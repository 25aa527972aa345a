#include "calibd/core/noise_floor.h"

#include <algorithm>
#include <array>
#include <boost/math/distributions/gamma.hpp>
#include <cmath>
#include <limits>
#include <optional>
#include <vector>

#include "base/boost_policy.h"
#include "base/matrix_product.h"
#include "base/rng.h"
#include "calibd/core/skce.h"
#include "calibd/core/status_macros.h"
#include "kernels/line_skce.h"
#include "kernels/pair_terms.h"
#include "kernels/tile_engine.h"
#include "kernels/tile_sums.h"
#include "kernels/tile_walk.h"

namespace calibd {
namespace {

constexpr std::size_t kClassesPerTurn = 4096;
// The minimum number of pairs drawn at random.
constexpr double kMinPairs = 1000;
constexpr double kWorkPerCheck = 1e5;
constexpr double kLevel = 0.95;
constexpr double kNormalQuantile = 1.6448536269514722;  // for kLevel

double SumOfVariances(const NullMoments& moments) {
  const auto n = static_cast<double>(moments.n);
  return 2 * moments.mean_square / (n * (n - 1));
}

using Gamma = boost::math::gamma_distribution<double, MathPolicy>;

// The skewness of SKCE_uq. moments.mean_cube: set. moments.mean_square: above 0.
double Skewness(const NullMoments& moments) {
  const auto n = static_cast<double>(moments.n);
  // The third moment is (2 / (n (n - 1)))^3 n (n - 1) (n - 2) mean_cube.
  return *moments.mean_cube * std::pow(2 / moments.mean_square, 1.5) * (n - 2) /
         std::sqrt(n * (n - 1));
}

// The shape of the Gamma distribution with this skewness. A sum of weighted chi-squares has a
// skewness between 0 and that of a single one, sqrt(8); an estimate may be outside.
double ShapeOf(double skewness) {
  constexpr double kAlmostNormal = 0.01;
  return 4 / std::pow(std::clamp(skewness, kAlmostNormal, std::sqrt(8.0)), 2);
}

// The quantile of the standardised Gamma distribution with this skewness.
double StandardQuantile(double skewness) {
  const double shape = ShapeOf(skewness);
  return (boost::math::quantile(Gamma(shape, 1), kLevel) - shape) / std::sqrt(shape);
}

double BiasedQuantile(double mean, double variance) {
  if (!(mean > 0) || !(variance > 0)) return mean;
  const double scale = variance / mean;
  return boost::math::quantile(Gamma(mean / scale, scale), kLevel);
}

}  // namespace

NullMoments NullMoments::Scaled(double weight) const {
  NullMoments scaled{n, weight * mean_diagonal, weight * weight * mean_square, std::nullopt};
  if (mean_cube.has_value()) scaled.mean_cube = weight * weight * weight * *mean_cube;
  return scaled;
}

NoiseFloor NullMoments::Biased() const {
  const auto size = static_cast<double>(n);
  const double shrink = (size - 1) / size;
  const double variance = shrink * shrink * SumOfVariances(*this);
  const double mean = mean_diagonal / size;
  return {mean, std::sqrt(variance), BiasedQuantile(mean, variance)};
}

NoiseFloor NullMoments::Unbiased() const {
  const auto size = static_cast<double>(n);
  const double deviation = std::sqrt(SumOfVariances(*this));
  if (mean_cube.has_value() && mean_square > 0) {
    return {0, deviation, deviation * StandardQuantile(Skewness(*this))};
  }
  // n SKCE_b = (n - 1) SKCE_uq + mean h_ii.
  return {0, deviation, (size * Biased().upper_quantile - mean_diagonal) / (size - 1)};
}

double NullMoments::PearsonPValue(double skce_unbiased) const {
  constexpr double kLeast = std::numeric_limits<double>::min();
  // Certain predictions: an estimate other than 0 is impossible.
  if (!(mean_square > 0)) return skce_unbiased > 0 ? kLeast : 1;
  const double shape = ShapeOf(Skewness(*this));
  const double quantile =
      shape + std::sqrt(shape) * skce_unbiased / std::sqrt(SumOfVariances(*this));
  if (!(quantile > 0)) return 1;
  return std::max(kLeast, boost::math::cdf(boost::math::complement(Gamma(shape, 1), quantile)));
}

NoiseFloor NullMoments::Block(std::int64_t block_count, std::size_t block_size) const {
  const auto b = static_cast<double>(block_size);
  const double variance = 2 * mean_square / (b * (b - 1)) / static_cast<double>(block_count);
  return {0, std::sqrt(variance), kNormalQuantile * std::sqrt(variance)};
}

namespace {

// The mean of E h_ij^2 over all pairs, or over as many random pairs as the work limit allows. A
// pair may be drawn twice; the mean is unbiased nevertheless. width: work per pair.
template <typename Square>
absl::StatusOr<double> MeanOverPairs(std::size_t n, double width, const RunControl& control,
                                     const Square& square) {
  const double budget = std::max(kMinPairs, kNullPairWork / width);
  const auto pairs_per_check = static_cast<std::size_t>(std::max(1.0, kWorkPerCheck / width));
  const auto size = static_cast<double>(n);
  const double pairs = size * (size - 1) / 2;
  double sum = 0;
  std::size_t done = 0;
  const auto check = [&] {
    return done++ % pairs_per_check == 0 ? control.CheckCancelled() : absl::OkStatus();
  };
  if (pairs <= budget) {
    for (std::size_t i = 0; i < n; ++i) {
      for (std::size_t j = i + 1; j < n; ++j) {
        CALIBD_RETURN_IF_ERROR(check());
        sum += square(i, j);
      }
    }
    return sum / pairs;
  }
  constexpr std::uint64_t kSeed = 1;
  Rng rng(kSeed);
  const auto count = static_cast<std::size_t>(budget);
  for (std::size_t pair = 0; pair < count; ++pair) {
    CALIBD_RETURN_IF_ERROR(check());
    const std::size_t i = rng.Below(static_cast<std::uint32_t>(n));
    const std::size_t j = rng.Below(static_cast<std::uint32_t>(n - 1));
    sum += square(i, j < i ? j : j + 1);
  }
  return sum / static_cast<double>(count);
}

// Writes the rows of consecutive parts, as NullSquare expects them.
void GatherRow(std::span<const PredictionSet> parts, std::size_t i, std::span<double> row) {
  const std::size_t m = parts.front().class_count;
  for (std::size_t part = 0; part < parts.size(); ++part) {
    const std::span<const double> from = parts[part].view().row(i);
    std::copy(from.begin(), from.end(), row.begin() + static_cast<std::ptrdiff_t>(part * m));
  }
}

absl::StatusOr<NullMoments> OverTiles(const PredictionBatch& batch, const Kernel& kernel,
                                      const RunControl& control) {
  const std::size_t n = batch.size();
  const std::size_t m = batch.class_count;
  std::vector<double> squares(batch.probabilities.size());
  NullMoments moments;
  moments.n = n;
  for (std::size_t i = 0; i < n; ++i) {
    double sum = 0;
    for (std::size_t k = i * m; k < (i + 1) * m; ++k) {
      squares[k] = batch.probabilities[k] * batch.probabilities[k];
      sum += squares[k];
    }
    moments.mean_diagonal += (1 - sum) / static_cast<double>(n);
  }
  const TileEngine<double> engine(batch.probabilities, m, kernel);
  struct alignas(64) GroupSum {
    double above_diagonal = 0;
  };
  std::array<GroupSum, kTileGroups> sums;
  const absl::Status status = ForEachTileGroup(n, control, [&](std::size_t group, TileWalk& walk) {
    constexpr std::size_t kValues = kTileSize * kTileSize;
    std::vector<double> kernels(kValues);
    std::vector<double> products(kValues);
    std::vector<double> cubes(kValues);
    std::vector<double> packed;
    const auto multiply = [&](const Tile& tile, std::span<const double> left,
                              std::span<const double> right, double keep,
                              std::vector<double>& out) {
      // Several classes at a time, so that the computation can be cancelled within a tile of very
      // many classes.
      for (std::size_t k = 0; k < m; k += kClassesPerTurn) {
        if (walk.cancelled() && walk.cancelled()()) return;
        Multiply(MatrixProduct<double>{.rows = tile.row_count,
                                       .columns = tile.column_count,
                                       .depth = std::min(kClassesPerTurn, m - k),
                                       .a = &left[tile.row_begin * m + k],
                                       .a_stride = m,
                                       .b = &right[tile.column_begin * m + k],
                                       .b_row_stride = 1,
                                       .b_column_stride = m,
                                       .c = out.data(),
                                       .c_stride = kTileSize,
                                       .keep = k == 0 ? keep : 1},
                 packed);
      }
    };
    while (const std::optional<Tile> tile = walk.Next()) {
      engine.Kernels(*tile, walk.cancelled(), kernels.data());
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
  moments.mean_square = std::max(0.0, total / (size * (size - 1) / 2));
  return moments;
}

}  // namespace

absl::StatusOr<NullMoments> EstimateNullMoments(const PredictionBatch& batch, const Kernel& kernel,
                                                const RunControl& control) {
  const std::size_t n = batch.size();
  CALIBD_RETURN_IF_ERROR(CheckSampleSize(n));
  if (const std::optional<LineSkce> line = LineSkce::Of(batch, kernel)) {
    const auto size = static_cast<double>(n);
    return NullMoments{.n = n,
                       .mean_diagonal = line->NullSumOfDiagonal() / size,
                       .mean_square = line->NullSumOfSquares() / (size * (size - 1) / 2)};
  }
  return OverTiles(batch, kernel, control);
}

absl::StatusOr<NullMoments> EstimateNullMoments(const LensBatch& batch, const Kernel& kernel,
                                                const RunControl& control) {
  const std::vector<PredictionSet>& parts = batch.parts;
  if (parts.size() == 1) {
    CALIBD_ASSIGN_OR_RETURN(const NullMoments moments,
                            EstimateNullMoments(parts.front().view(), kernel, control));
    return moments.Scaled(batch.weight);
  }
  const std::size_t n = batch.size();
  CALIBD_RETURN_IF_ERROR(CheckSampleSize(n));
  const std::size_t m = parts.front().class_count;
  NullMoments moments;
  moments.n = n;
  for (const PredictionSet& part : parts) {
    for (std::size_t i = 0; i < n; ++i) {
      double sum = 1;
      for (const double p : part.view().row(i)) sum -= p * p;
      moments.mean_diagonal += batch.weight * sum / static_cast<double>(n);
    }
  }
  const auto width = static_cast<double>(parts.size());
  std::vector<double> g_i(parts.size() * m);
  std::vector<double> g_j(parts.size() * m);
  const auto square = [&](std::size_t i, std::size_t j) {
    GatherRow(parts, i, g_i);
    GatherRow(parts, j, g_j);
    return NullSquare(g_i, g_j, parts.size(), batch.weight, kernel);
  };
  CALIBD_ASSIGN_OR_RETURN(moments.mean_square, MeanOverPairs(n, width, control, square));
  return moments;
}

absl::StatusOr<NullMoments> EstimateNullMoments(const PredictionBatch& batch,
                                                const MatrixKernel& kernel,
                                                const RunControl& control) {
  const std::size_t n = batch.size();
  CALIBD_RETURN_IF_ERROR(CheckSampleSize(n));
  NullMoments moments;
  moments.n = n;
  for (std::size_t i = 0; i < n; ++i) {
    moments.mean_diagonal += kernel.NullDiagonal(batch.row(i)) / static_cast<double>(n);
  }
  const auto width = static_cast<double>(batch.class_count * batch.class_count);
  const auto square = [&](std::size_t i, std::size_t j) {
    return kernel.NullSquare(batch.row(i), batch.row(j));
  };
  CALIBD_ASSIGN_OR_RETURN(moments.mean_square, MeanOverPairs(n, width, control, square));
  return moments;
}

absl::StatusOr<double> EstimateNullCube(const LensBatch& batch, const Kernel& kernel,
                                        const RunControl& control) {
  const std::size_t n = batch.size();
  CALIBD_RETURN_IF_ERROR(CheckSampleSize(n));
  if (n < 3) return 0;
  const std::vector<PredictionSet>& parts = batch.parts;
  const std::size_t width = parts.size() * parts.front().class_count;
  // The row of each part, as NullCube expects them.
  std::vector<double> rows(n * width);
  for (std::size_t i = 0; i < n; ++i) {
    GatherRow(parts, i, std::span(rows).subspan(i * width, width));
  }
  const auto cube = [&](std::size_t i, std::size_t j, std::size_t k) {
    return NullCube({&rows[i * width], width}, {&rows[j * width], width}, {&rows[k * width], width},
                    parts.size(), batch.weight, kernel);
  };
  const double work = 3 * static_cast<double>(width);
  const double budget = std::max(kMinPairs, kNullPairWork / work);
  const auto triples_per_check = static_cast<std::size_t>(std::max(1.0, kWorkPerCheck / work));
  const auto size = static_cast<double>(n);
  const double triples = size * (size - 1) * (size - 2) / 6;
  double sum = 0;
  std::size_t done = 0;
  const auto check = [&] {
    return done++ % triples_per_check == 0 ? control.CheckCancelled() : absl::OkStatus();
  };
  if (triples <= budget) {
    for (std::size_t i = 0; i < n; ++i) {
      for (std::size_t j = i + 1; j < n; ++j) {
        for (std::size_t k = j + 1; k < n; ++k) {
          CALIBD_RETURN_IF_ERROR(check());
          sum += cube(i, j, k);
        }
      }
    }
    return sum / triples;
  }
  constexpr std::uint64_t kSeed = 2;
  Rng rng(kSeed);
  const auto count = static_cast<std::size_t>(budget);
  for (std::size_t triple = 0; triple < count; ++triple) {
    CALIBD_RETURN_IF_ERROR(check());
    const std::size_t i = rng.Below(static_cast<std::uint32_t>(n));
    std::size_t j = rng.Below(static_cast<std::uint32_t>(n - 1));
    if (j >= i) ++j;
    std::size_t k = rng.Below(static_cast<std::uint32_t>(n - 2));
    if (k >= std::min(i, j)) ++k;
    if (k >= std::max(i, j)) ++k;
    sum += cube(i, j, k);
  }
  return sum / static_cast<double>(count);
}

double NullTrace(std::span<const double> g_i, std::span<const double> g_j) noexcept {
  double products = 0;
  double cubes = 0;
  for (std::size_t k = 0; k < g_i.size(); ++k) {
    const double product = g_i[k] * g_j[k];
    products += product;
    cubes += product * (g_i[k] + g_j[k]);
  }
  return std::max(0.0, products - cubes + products * products);
}

double NullSquare(std::span<const double> g_i, std::span<const double> g_j, std::size_t parts,
                  double weight, const Kernel& kernel) noexcept {
  if (parts == 1) {
    const double scale = weight * kernel(g_i, g_j);
    return scale * scale * NullTrace(g_i, g_j);
  }
  // Parts of two classes: h = sum_k r_ik r_jk k_k, where r is 2 weight times [y = k] - g_k.
  double sum = 0;
  double own = 0;
  for (std::size_t k = 0; k < parts; ++k) {
    const double p = g_i[2 * k];
    const double q = g_j[2 * k];
    const double factor = kernel(g_i.subspan(2 * k, 2), g_j.subspan(2 * k, 2));
    const double product = factor * p * q;
    sum += product;
    own += product * (factor * (1 - p) * (1 - q) - product);
  }
  return 4 * weight * weight * std::max(0.0, sum * sum + own);
}

double NullCube(std::span<const double> g_i, std::span<const double> g_j,
                std::span<const double> g_k, std::size_t parts, double weight,
                const Kernel& kernel) noexcept {
  // Sums over the classes c of one part, or over the first class of each of several parts of two
  // classes, with x = g_i(c), y = g_j(c), z = g_k(c) and the kernel values of the three pairs.
  double all = 0;
  double ij = 0;
  double jk = 0;
  double ki = 0;
  double without_ij = 0;
  double without_jk = 0;
  double without_ki = 0;
  const std::size_t m = g_i.size() / parts;
  for (std::size_t part = 0; part < parts; ++part) {
    const auto i = g_i.subspan(part * m, m);
    const auto j = g_j.subspan(part * m, m);
    const auto k = g_k.subspan(part * m, m);
    const double a = kernel(i, j);
    const double b = kernel(j, k);
    const double c = kernel(k, i);
    for (std::size_t at = 0; at < (parts == 1 ? m : 1); ++at) {
      const double x = i[at];
      const double y = j[at];
      const double z = k[at];
      const double product = x * y * z;
      all += a * b * c * product * (1 - x - y - z);
      ij += a * x * y;
      jk += b * y * z;
      ki += c * z * x;
      without_ij += b * c * product;
      without_jk += c * a * product;
      without_ki += a * b * product;
    }
  }
  // The trace of (D_i - g_i g_i') A_ij (D_j - g_j g_j') A_jk (D_k - g_k g_k') A_ki, where D is the
  // diagonal matrix of g. The residuals of two-class parts are 2 ([y = c] - g(c)) for each sum.
  const double trace = all + ij * without_ij + jk * without_jk + ki * without_ki - ij * jk * ki;
  return (parts == 1 ? 1 : 8) * weight * weight * weight * trace;
}

}  // namespace calibd
