#include "line_skce.h"

#include <algorithm>
#include <cmath>
#include <numbers>
#include <utility>

namespace calibd {
namespace {

// A row may be this far from the line: a few roundings.
constexpr double kOnLine = 1e-14;

// The kernel's distance of two predictions whose first probabilities differ by 1.
std::optional<double> UnitDistance(Distance distance) {
  switch (distance) {
    case Distance::kTotalVariation:
      return 1;
    case Distance::kCityblock:
      return 2;
    case Distance::kEuclidean:
      return std::numbers::sqrt2;
    case Distance::kSquaredEuclidean:
      return std::nullopt;
  }
  return std::nullopt;
}

}  // namespace

std::optional<LineSkce> LineSkce::Of(const PredictionBatch& batch, const Kernel& kernel) {
  const std::optional<double> unit = UnitDistance(kernel.distance());
  if (batch.class_count != 2 || !unit) return std::nullopt;
  const std::size_t n = batch.size();
  const std::span<const double> g = batch.probabilities;
  std::vector<std::pair<double, std::uint32_t>> sorted;
  sorted.reserve(n);
  for (std::size_t i = 0; i < n; ++i) {
    if (std::abs(g[2 * i] + g[2 * i + 1] - 1) > kOnLine) return std::nullopt;
    sorted.emplace_back(g[2 * i], static_cast<std::uint32_t>(i));
  }
  std::sort(sorted.begin(), sorted.end());
  LineSkce line;
  line.order_.reserve(n);
  line.residuals_.reserve(n);
  line.variances_.reserve(n);
  line.decay_.reserve(n);
  for (std::size_t s = 0; s < n; ++s) {
    const auto [position, row] = sorted[s];
    const double gap = s == 0 ? 0 : position - sorted[s - 1].first;
    line.order_.push_back(row);
    line.residuals_.push_back(batch.labels[row] == 0 ? 1 - position : -position);
    line.variances_.push_back(position * (1 - position));
    line.decay_.push_back(gap == 0 ? 1 : kernel.OfDistance(gap * *unit));
  }
  return line;
}

double LineSkce::SumAboveDiagonal() const noexcept {
  double sum = 0;
  double before = 0;  // sum of residuals before this one, as it sees them
  for (std::size_t s = 0; s < residuals_.size(); ++s) {
    before *= decay_[s];
    sum += residuals_[s] * before;
    before += residuals_[s];
  }
  return 2 * sum;
}

double LineSkce::SumOfDiagonal() const noexcept {
  double sum = 0;
  for (const double residual : residuals_) sum += residual * residual;
  return 2 * sum;
}

double LineSkce::NullSumOfSquares() const noexcept {
  double sum = 0;
  double before = 0;
  for (std::size_t s = 0; s < variances_.size(); ++s) {
    before *= decay_[s] * decay_[s];
    sum += variances_[s] * before;
    before += variances_[s];
  }
  return 4 * sum;
}

double LineSkce::NullSumOfDiagonal() const noexcept {
  double sum = 0;
  for (const double variance : variances_) sum += variance;
  return 2 * sum;
}

LineSkce::Rows LineSkce::RowSums() const {
  const std::size_t n = residuals_.size();
  Rows rows{std::vector<double>(n), std::vector<double>(n)};
  double before = 0;
  for (std::size_t s = 0; s < n; ++s) {
    before *= decay_[s];
    rows.diagonal[order_[s]] = 2 * residuals_[s] * residuals_[s];
    rows.sums[order_[s]] = 2 * residuals_[s] * (before + residuals_[s]);
    before += residuals_[s];
  }
  double after = 0;
  for (std::size_t s = n; s-- > 0;) {
    rows.sums[order_[s]] += 2 * residuals_[s] * after;
    after += residuals_[s];
    after *= decay_[s];
  }
  return rows;
}

double LineSkce::QuadraticForm(std::span<const std::uint32_t> counts) const noexcept {
  double sum = 0;
  double before = 0;
  for (std::size_t s = 0; s < residuals_.size(); ++s) {
    before *= decay_[s];
    const double residual = static_cast<double>(counts[order_[s]]) * residuals_[s];
    sum += residual * (2 * before + residual);
    before += residual;
  }
  return 2 * sum;
}

}  // namespace calibd
