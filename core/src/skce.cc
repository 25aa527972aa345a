#include "calibd/core/skce.h"

#include <algorithm>
#include <array>
#include <cmath>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "term_sums.h"
#include "term_tiles.h"

namespace calibd {

namespace {

// Sums over classes; two of each break the chain of dependent additions, and their
// order is fixed.
struct ClassSums {
  double distance[2] = {0, 0};
  double dot[2] = {0, 0};

  void Add(std::span<const double> g_i, std::span<const double> g_j, std::size_t begin,
           std::size_t end) noexcept {
    std::size_t k = begin;
    for (; k + 2 <= end; k += 2) {
      for (std::size_t lane = 0; lane < 2; ++lane) {
        distance[lane] += std::abs(g_i[k + lane] - g_j[k + lane]);
        dot[lane] += g_i[k + lane] * g_j[k + lane];
      }
    }
    if (k < end) {
      distance[0] += std::abs(g_i[k] - g_j[k]);
      dot[0] += g_i[k] * g_j[k];
    }
  }
};

}  // namespace

double SkceTerm(std::span<const double> g_i, std::int32_t y_i, std::span<const double> g_j,
                std::int32_t y_j, const Kernel& kernel) noexcept {
  // The product of the residuals, class by class: [y_i = y_j] - g_i[y_j] - g_j[y_i] +
  // <g_i, g_j> would lose the digits of confident predictions to cancellation, while
  // 1 - g is exact for g >= 1/2. h(i, j) == h(j, i) to the last bit.
  const auto a = static_cast<std::size_t>(std::min(y_i, y_j));
  const auto b = static_cast<std::size_t>(std::max(y_i, y_j));
  ClassSums others;
  others.Add(g_i, g_j, 0, a);
  if (a < b) others.Add(g_i, g_j, a + 1, b);
  others.Add(g_i, g_j, b + 1, g_i.size());
  double distance = std::abs(g_i[a] - g_j[a]);
  double residuals = 0;
  if (a == b) {
    residuals = (1 - g_i[a]) * (1 - g_j[a]);
  } else {
    distance += std::abs(g_i[b] - g_j[b]);
    const auto at_i = static_cast<std::size_t>(y_i);
    const auto at_j = static_cast<std::size_t>(y_j);
    residuals = -((1 - g_i[at_i]) * g_j[at_i] + (1 - g_j[at_j]) * g_i[at_j]);
  }
  return kernel.OfDistance(0.5 * (distance + (others.distance[0] + others.distance[1]))) *
         (residuals + (others.dot[0] + others.dot[1]));
}

void TermSums::Add(std::size_t group, const Tile& tile) noexcept {
  Part& part = parts_[group];
  for (std::size_t i = 0; i < tile.row_count; ++i) {
    const double* row = tile.row(i);
    double sum = 0;
    for (std::size_t j = tile.on_diagonal() ? i + 1 : 0; j < tile.column_count; ++j) sum += row[j];
    part.above_diagonal += sum;
    if (tile.on_diagonal()) part.diagonal += row[i];
  }
}

QuadraticSkce TermSums::Estimate(std::size_t n) const noexcept {
  Part total;
  for (const Part& part : parts_) {
    total.above_diagonal += part.above_diagonal;
    total.diagonal += part.diagonal;
  }
  const auto count = static_cast<double>(n);
  QuadraticSkce estimate;
  estimate.n = n;
  estimate.biased = (2 * total.above_diagonal + total.diagonal) / (count * count);
  if (n > 1) estimate.unbiased = 2 * total.above_diagonal / (count * (count - 1));
  estimate.mean_diagonal = total.diagonal / count;
  return estimate;
}

namespace {

absl::StatusOr<QuadraticSkce> Estimate(const PredictionBatch& batch, const Kernel& kernel,
                                       const RunControl& control, std::size_t needed) {
  if (batch.size() < needed) {
    return absl::FailedPreconditionError(
        absl::StrCat("there are ", batch.size(), " observations, needed are at least ", needed));
  }
  TermSums sums;
  const absl::Status status = ForEachTile(
      batch.size(), TermRows(batch, kernel),
      [&](std::size_t group, const Tile& tile) { sums.Add(group, tile); }, control);
  if (!status.ok()) return status;
  return sums.Estimate(batch.size());
}

}  // namespace

absl::StatusOr<QuadraticSkce> EstimateQuadraticSkce(const PredictionBatch& batch,
                                                    const Kernel& kernel,
                                                    const RunControl& control) {
  return Estimate(batch, kernel, control, 2);
}

absl::StatusOr<double> SkceBiased(const PredictionBatch& batch, const Kernel& kernel,
                                  const RunControl& control) {
  absl::StatusOr<QuadraticSkce> estimate = Estimate(batch, kernel, control, 1);
  if (!estimate.ok()) return estimate.status();
  return estimate->biased;
}

}  // namespace calibd
