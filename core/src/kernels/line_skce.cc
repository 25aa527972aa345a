#include "kernels/line_skce.h"

#include <boost/sort/spreadsort/float_sort.hpp>
#include <cmath>
#include <cstdint>
#include <numbers>

namespace calibd {
namespace {

// Maximum distance of a row from the line, due to a few roundings.
constexpr double kOnLine = 1e-14;

// The kernel's distance between two predictions whose first probabilities differ by 1.
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

struct Point {
  double position;
  std::uint32_t row;
  // True if the label is the first class.
  bool is_first;
};

// p (1 - p), given a residual of 1 - p or -p.
double Variance(double residual) { return std::abs(residual) * (1 - std::abs(residual)); }

}  // namespace

std::optional<LineSkce> LineSkce::Of(const PredictionBatch& batch, const Kernel& kernel) {
  const std::optional<double> unit = UnitDistance(kernel.distance());
  if (batch.class_count != 2 || !unit) return std::nullopt;
  const std::size_t n = batch.size();
  const std::span<const double> g = batch.probabilities;
  std::vector<Point> sorted(n);
  for (std::size_t i = 0; i < n; ++i) {
    if (std::abs(g[2 * i] + g[2 * i + 1] - 1) > kOnLine) return std::nullopt;
    sorted[i] = {g[2 * i], static_cast<std::uint32_t>(i), batch.labels[i] == 0};
  }
  boost::sort::spreadsort::float_sort(
      sorted.begin(), sorted.end(),
      [](const Point& point, unsigned offset) {
        return boost::sort::spreadsort::float_mem_cast<double, std::int64_t>(point.position) >>
               offset;
      },
      [](const Point& a, const Point& b) { return a.position < b.position; });
  LineSkce line;
  line.order_.resize(n);
  line.positions_.resize(n);
  line.residuals_.resize(n);
  line.decay_.resize(n);
  for (std::size_t s = 0; s < n; ++s) {
    const Point& point = sorted[s];
    const double gap = s == 0 ? 0 : point.position - sorted[s - 1].position;
    line.order_[s] = point.row;
    line.positions_[s] = point.position;
    line.residuals_[s] = point.is_first ? 1 - point.position : -point.position;
    line.decay_[s] = gap == 0 ? 1 : kernel.OfDistance(gap * *unit);
  }
  return line;
}

double LineSkce::SumAboveDiagonal() const noexcept {
  double sum = 0;
  double before = 0;  // sum of the residuals before this one, weighted by the kernel
  for (std::size_t s = 0; s < residuals_.size(); ++s) {
    before *= decay_[s];
    sum += residuals_[s] * before;
    before += residuals_[s];
  }
  return 2 * sum;
}

double LineSkce::SumAboveDiagonal(std::span<const std::int32_t> labels,
                                  std::int32_t first_class) const noexcept {
  double sum = 0;
  double before = 0;
  for (std::size_t s = 0; s < positions_.size(); ++s) {
    before *= decay_[s];
    const double residual = (labels[order_[s]] == first_class ? 1 : 0) - positions_[s];
    sum += residual * before;
    before += residual;
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
  for (std::size_t s = 0; s < residuals_.size(); ++s) {
    before *= decay_[s] * decay_[s];
    sum += Variance(residuals_[s]) * before;
    before += Variance(residuals_[s]);
  }
  return 4 * sum;
}

double LineSkce::NullSumOfDiagonal() const noexcept {
  double sum = 0;
  for (const double residual : residuals_) sum += Variance(residual);
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
