#include "numbers/location_scale_fit.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <cstddef>
#include <vector>

#include "base/normal_mean.h"
#include "base/normal_quantile.h"

namespace calibd {
namespace {

constexpr double kMostFittedShift = 10;
constexpr double kMostFittedScale = 20;
constexpr int kMostFitSteps = 50;
constexpr double kSmallFitStep = 1e-9;

// An edge z of the cells is at slope z - offset of the standard Normal distribution. In these
// parameters, the logarithm of the likelihood is concave.
struct FitPoint {
  double slope = 1;
  double offset = 0;
};

// The standard Normal distribution at an edge; initially at -infinity.
struct FitEdge {
  double below = 0;
  double above = 1;
  double density = 0;
  // z times the density.
  double product = 0;
};

FitEdge FitEdgeAt(double z, const FitPoint& point) {
  const double a = point.slope * z - point.offset;
  const double density = NormalDensity(a);
  return {
      .below = NormalCdf(a), .above = NormalCdf(-a), .density = density, .product = z * density};
}

// The log likelihood with its gradient and Fisher information.
struct FitLikelihood {
  double log = 0;
  std::array<double, 2> gradient{};
  std::array<double, 3> information{};
};

class CellLikelihood {
 public:
  CellLikelihood(std::span<const double> edges, std::span<const std::int64_t> counts) {
    for (const double edge : edges) z_.push_back(NormalQuantile(edge));
    for (std::size_t c = 0; c < counts.size(); ++c) {
      const double below = c == 0 ? 0 : edges[c - 1];
      const double above = c < edges.size() ? edges[c] : 1;
      weights_.push_back(static_cast<double>(counts[c]) + above - below);
      total_ += weights_.back();
    }
  }

  [[nodiscard]] FitLikelihood At(const FitPoint& point) const {
    FitLikelihood result;
    FitEdge lower;
    for (std::size_t c = 0; c < weights_.size(); ++c) {
      const FitEdge upper =
          c < z_.size() ? FitEdgeAt(z_[c], point) : FitEdge{.below = 1, .above = 0};
      // Differences of the smaller tail keep their digits.
      const double p = std::max(
          upper.below < 0.5 ? upper.below - lower.below : lower.above - upper.above, 1e-300);
      const double by_slope = upper.product - lower.product;
      const double by_offset = lower.density - upper.density;
      result.log += weights_[c] * std::log(p);
      result.gradient[0] += weights_[c] * by_slope / p;
      result.gradient[1] += weights_[c] * by_offset / p;
      result.information[0] += total_ * by_slope * by_slope / p;
      result.information[1] += total_ * by_slope * by_offset / p;
      result.information[2] += total_ * by_offset * by_offset / p;
      lower = upper;
    }
    return result;
  }

  [[nodiscard]] double z(std::size_t k) const noexcept { return z_[k]; }
  [[nodiscard]] double share(std::size_t c) const noexcept { return weights_[c] / total_; }

 private:
  std::vector<double> z_;
  std::vector<double> weights_;
  double total_ = 0;
};

}  // namespace

LocationScale FitLocationScale(std::span<const double> edges,
                               std::span<const std::int64_t> counts) {
  const CellLikelihood likelihood(edges, counts);
  if (edges.size() == 1) {
    const double shift = likelihood.z(0) - NormalQuantile(likelihood.share(0));
    return {std::clamp(shift, -kMostFittedShift, kMostFittedShift), 1};
  }
  FitPoint point;
  FitLikelihood now = likelihood.At(point);
  for (int step = 0; step < kMostFitSteps; ++step) {
    const auto& [i, j, k] = now.information;
    const double determinant = i * k - j * j;
    if (!(determinant > 0)) break;
    const double by_slope = (k * now.gradient[0] - j * now.gradient[1]) / determinant;
    const double by_offset = (i * now.gradient[1] - j * now.gradient[0]) / determinant;
    double length = 1;
    FitPoint next;
    FitLikelihood then;
    // Halves a step that overshoots.
    do {
      next = {std::clamp(point.slope + length * by_slope, point.slope / 4, 4 * point.slope),
              point.offset + length * by_offset};
      then = likelihood.At(next);
      length /= 2;
    } while (!(then.log >= now.log) && length > kSmallFitStep);
    if (!(then.log >= now.log)) break;
    const double moved = std::abs(next.slope - point.slope) + std::abs(next.offset - point.offset);
    point = next;
    now = then;
    if (moved < kSmallFitStep) break;
  }
  return {std::clamp(point.offset / point.slope, -kMostFittedShift, kMostFittedShift),
          std::clamp(1 / point.slope, 1 / kMostFittedScale, kMostFittedScale)};
}

}  // namespace calibd
