#include "calibd/core/skce.h"

#include <algorithm>
#include <optional>
#include <vector>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "calibd/core/status_macros.h"
#include "kernels/line_skce.h"
#include "kernels/matrix_tile_engine.h"
#include "kernels/pair_terms.h"
#include "kernels/tile_engine.h"
#include "kernels/tile_sums.h"

namespace calibd {
namespace {

// Two sums break the chain of dependent additions; their order is fixed.
struct DotProduct {
  double sum[2] = {0, 0};

  void Add(std::span<const double> x, std::span<const double> z, std::size_t begin,
           std::size_t end) noexcept {
    std::size_t k = begin;
    for (; k + 2 <= end; k += 2) {
      sum[0] += x[k] * z[k];
      sum[1] += x[k + 1] * z[k + 1];
    }
    if (k < end) sum[0] += x[k] * z[k];
  }
};

absl::StatusOr<TermSums> SumTerms(const PredictionBatch& batch, const Kernel& kernel,
                                  const RunControl& control, Precision precision,
                                  double progress_begin, double progress_end) {
  if (const std::optional<LineSkce> line = LineSkce::Of(batch, kernel)) {
    const TermSums sums{line->SumAboveDiagonal(), line->SumOfDiagonal()};
    if (control.progress) control.progress(progress_end);
    return sums;
  }
  return precision == Precision::kFloat32
             ? SumTiles(TileEngine<float>(batch, kernel), control, progress_begin, progress_end)
             : SumTiles(TileEngine<double>(batch, kernel), control, progress_begin, progress_end);
}

// size: at least 2.
QuadraticSkce EstimateFrom(const TermSums& sums, std::size_t size) noexcept {
  const auto n = static_cast<double>(size);
  QuadraticSkce estimate;
  estimate.n = size;
  // A sum of squares; rounding could make it negative.
  estimate.biased = std::max(0.0, (2 * sums.above_diagonal + sums.diagonal) / (n * n));
  estimate.unbiased = 2 * sums.above_diagonal / (n * (n - 1));
  estimate.mean_diagonal = sums.diagonal / n;
  return estimate;
}

}  // namespace

absl::Status CheckSampleSize(std::size_t n) {
  if (n >= 2) return absl::OkStatus();
  return absl::FailedPreconditionError(
      absl::StrCat("not enough observations: ", n, ", at least 2 are needed"));
}

double ResidualProduct(std::span<const double> g_i, std::int32_t y_i, std::span<const double> g_j,
                       std::int32_t y_j) noexcept {
  // The product of the residuals, class by class: [y_i = y_j] - g_i[y_j] - g_j[y_i] +
  // <g_i, g_j> would lose the digits of confident predictions to cancellation, while
  // 1 - g is exact for g >= 1/2. Symmetric to the last bit.
  const auto a = static_cast<std::size_t>(std::min(y_i, y_j));
  const auto b = static_cast<std::size_t>(std::max(y_i, y_j));
  DotProduct others;
  others.Add(g_i, g_j, 0, a);
  if (a < b) others.Add(g_i, g_j, a + 1, b);
  others.Add(g_i, g_j, b + 1, g_i.size());
  double residuals = 0;
  if (a == b) {
    residuals = (1 - g_i[a]) * (1 - g_j[a]);
  } else {
    const auto at_i = static_cast<std::size_t>(y_i);
    const auto at_j = static_cast<std::size_t>(y_j);
    residuals = -((1 - g_i[at_i]) * g_j[at_i] + (1 - g_j[at_j]) * g_i[at_j]);
  }
  return residuals + (others.sum[0] + others.sum[1]);
}

double SkceTerm(std::span<const double> g_i, std::int32_t y_i, std::span<const double> g_j,
                std::int32_t y_j, const Kernel& kernel) noexcept {
  return kernel(g_i, g_j) * ResidualProduct(g_i, y_i, g_j, y_j);
}

double SkceTerm(std::span<const double> g_i, std::span<const double> projected_i,
                std::span<const double> g_j, std::span<const double> projected_j,
                const MatrixKernel& kernel) noexcept {
  double sum = 0;
  std::size_t first = 0;
  for (const MatrixKernel::Factor& factor : kernel.factors()) {
    double product = 0;
    for (std::size_t column = first; column < first + factor.rank; ++column) {
      product += projected_i[column] * projected_j[column];
    }
    sum += factor.kernel(g_i, g_j) * product;
    first += factor.rank;
  }
  return sum;
}

double SkceTerm(std::span<const double> g_i, std::int32_t y_i, std::span<const double> g_j,
                std::int32_t y_j, const MatrixKernel& kernel) noexcept {
  std::vector<double> projected_i(kernel.rank());
  std::vector<double> projected_j(kernel.rank());
  kernel.Project(g_i, y_i, projected_i);
  kernel.Project(g_j, y_j, projected_j);
  return SkceTerm(g_i, projected_i, g_j, projected_j, kernel);
}

absl::StatusOr<QuadraticSkce> EstimateQuadraticSkce(std::span<const PredictionBatch> parts,
                                                    double weight, const Kernel& kernel,
                                                    const RunControl& control,
                                                    Precision precision) {
  const std::size_t n = parts.front().size();
  CALIBD_RETURN_IF_ERROR(CheckSampleSize(n));
  TermSums total;
  const auto count = static_cast<double>(parts.size());
  for (std::size_t part = 0; part < parts.size(); ++part) {
    CALIBD_RETURN_IF_ERROR(control.CheckCancelled());
    const auto done = static_cast<double>(part);
    CALIBD_ASSIGN_OR_RETURN(const TermSums sums, SumTerms(parts[part], kernel, control, precision,
                                                          done / count, (done + 1) / count));
    total.above_diagonal += weight * sums.above_diagonal;
    total.diagonal += weight * sums.diagonal;
  }
  return EstimateFrom(total, n);
}

absl::StatusOr<QuadraticSkce> EstimateQuadraticSkce(const PredictionBatch& batch,
                                                    const Kernel& kernel, const RunControl& control,
                                                    Precision precision) {
  return EstimateQuadraticSkce(std::span(&batch, 1), 1, kernel, control, precision);
}

absl::StatusOr<QuadraticSkce> EstimateQuadraticSkce(const LensBatch& batch, const Kernel& kernel,
                                                    const RunControl& control,
                                                    Precision precision) {
  return EstimateQuadraticSkce(batch.views(), batch.weight, kernel, control, precision);
}

absl::StatusOr<QuadraticSkce> EstimateQuadraticSkce(const PredictionBatch& batch,
                                                    const MatrixKernel& kernel,
                                                    const RunControl& control) {
  if (batch.class_count != kernel.class_count()) {
    return absl::InvalidArgumentError(absl::StrCat("the kernel has ", kernel.class_count(),
                                                   " classes, expected ", batch.class_count));
  }
  CALIBD_RETURN_IF_ERROR(CheckSampleSize(batch.size()));
  CALIBD_ASSIGN_OR_RETURN(const TermSums sums, SumTiles(MatrixTileEngine(batch, kernel), control));
  return EstimateFrom(sums, batch.size());
}

std::size_t QuadraticMemory(std::size_t n, std::size_t class_count, Precision precision) noexcept {
  return precision == Precision::kFloat32 ? TileEngine<float>::MemoryBytes(n, class_count)
                                          : TileEngine<double>::MemoryBytes(n, class_count);
}

}  // namespace calibd
