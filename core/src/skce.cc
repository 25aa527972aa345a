#include "calibd/core/skce.h"

#include <array>
#include <cmath>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "term_sums.h"
#include "term_tiles.h"

namespace calibd {

double SkceTerm(std::span<const double> g_i, std::int32_t y_i, std::span<const double> g_j,
                std::int32_t y_j, const Kernel& kernel) noexcept {
  // Two sums of each kind break the chain of dependent additions; their order is
  // fixed.
  double distance[2] = {0, 0};
  double dot[2] = {0, 0};
  std::size_t k = 0;
  for (; k + 2 <= g_i.size(); k += 2) {
    for (std::size_t lane = 0; lane < 2; ++lane) {
      distance[lane] += std::abs(g_i[k + lane] - g_j[k + lane]);
      dot[lane] += g_i[k + lane] * g_j[k + lane];
    }
  }
  if (k < g_i.size()) {
    distance[0] += std::abs(g_i[k] - g_j[k]);
    dot[0] += g_i[k] * g_j[k];
  }
  const double same_label = y_i == y_j ? 1 : 0;
  // The inner sum keeps h(i, j) == h(j, i) to the last bit.
  const double crossed = g_i[static_cast<std::size_t>(y_j)] + g_j[static_cast<std::size_t>(y_i)];
  const double residual = same_label - crossed + (dot[0] + dot[1]);
  return kernel.OfDistance(0.5 * (distance[0] + distance[1])) * residual;
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
