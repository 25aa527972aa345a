#include "calibd/core/forecast_coverage.h"

#include <algorithm>
#include <cmath>
#include <numbers>
#include <span>
#include <vector>

#include "calibd/core/error_interval.h"

namespace calibd {
namespace {

constexpr std::size_t kEqualCells = 20;
// Of the normal mixture.
constexpr double kMixturePrecision = 50;
// Levels that differ by less are equally near.
constexpr double kEqualDistance = 1e-12;

// The number of cells below the inner edge nearest to the level.
std::size_t NearestEdge(std::span<const double> edges, double level) {
  std::size_t best = 0;
  for (std::size_t e = 1; e < edges.size(); ++e) {
    if (std::abs(edges[e] - level) < std::abs(edges[best] - level)) best = e;
  }
  return best + 1;
}

// The numbers of cells below the inner edges of the cells of the coverage error.
std::vector<std::size_t> ErrorEdges(const ForecastCells& cells) {
  std::vector<std::size_t> edges;
  if (std::holds_alternative<QuantileForecasts>(cells.kind())) {
    for (std::size_t c = 1; c < cells.cell_count(); ++c) edges.push_back(c);
    return edges;
  }
  for (std::size_t i = 1; i < kEqualCells; ++i) {
    const double level = static_cast<double>(i) / static_cast<double>(kEqualCells);
    edges.push_back(NearestEdge(cells.edges(), level));
  }
  edges.erase(std::unique(edges.begin(), edges.end()), edges.end());
  return edges;
}

CoverageError ErrorOf(const ForecastCells& cells, std::span<const std::int64_t> counts, double n,
                      double alpha) {
  std::vector<std::size_t> edges = ErrorEdges(cells);
  edges.push_back(cells.cell_count());
  CoverageError error;
  error.cell_count = edges.size();
  double sum = 0;
  std::size_t c = 0;
  for (const std::size_t edge : edges) {
    double deviation = 0;
    for (; c < edge; ++c) {
      deviation += static_cast<double>(counts[c]) - n * cells.probabilities()[c];
    }
    sum += std::abs(deviation);
  }
  const double margin = CoverageErrorMargin(static_cast<std::int64_t>(n), edges.size(), alpha);
  error.estimate = std::min(1.0, sum / (2 * n));
  error.lower = std::max(0.0, error.estimate - margin);
  error.upper = std::min(1.0, error.estimate + margin);
  return error;
}

// A central interval: the cells first .. last - 1.
struct CentralCells {
  std::size_t first;
  std::size_t last;

  friend bool operator==(const CentralCells&, const CentralCells&) = default;
};

// Of two levels that are equally near, the outer one.
std::optional<CentralCells> CentralCellsOf(std::span<const double> edges, double p) {
  std::optional<std::size_t> lower;
  std::optional<std::size_t> upper;
  const double ends[] = {(1 - p) / 2, (1 + p) / 2};
  for (std::size_t e = 0; e < edges.size(); ++e) {
    const auto distance = [&](std::size_t edge, double end) { return std::abs(edges[edge] - end); };
    if (edges[e] < 0.5 &&
        (!lower || distance(e, ends[0]) < distance(*lower, ends[0]) - kEqualDistance)) {
      lower = e;
    }
    if (edges[e] > 0.5 &&
        (!upper || distance(e, ends[1]) <= distance(*upper, ends[1]) + kEqualDistance)) {
      upper = e;
    }
  }
  if (!lower || !upper) return std::nullopt;
  return CentralCells{.first = *lower + 1, .last = *upper + 1};
}

CentralCoverage CoverageOfCentral(const ForecastCells& cells, std::span<const std::int64_t> counts,
                                  double n, double nominal, const CentralCells& central,
                                  double alpha) {
  CentralCoverage result;
  result.nominal = nominal;
  result.lower_level = cells.edges()[central.first - 1];
  result.upper_level = cells.edges()[central.last - 1];
  result.promised = result.upper_level - result.lower_level;
  double inside = 0;
  for (std::size_t c = central.first; c < central.last; ++c) {
    inside += static_cast<double>(counts[c]);
  }
  const double promised = result.promised;
  const double squares =
      inside * (1 - promised) * (1 - promised) + (n - inside) * promised * promised;
  const double width = MixtureBoundary(squares, std::log(2 / alpha));
  result.coverage = inside / n;
  result.lower = std::max(0.0, (inside - width) / n);
  result.upper = std::min(1.0, (inside + width) / n);
  return result;
}

}  // namespace

double CoverageErrorMargin(std::int64_t count, std::size_t cell_count, double alpha) noexcept {
  const auto t = static_cast<double>(count);
  const double a = t / 4 + kMixturePrecision;
  const double log_sets = static_cast<double>(cell_count - 1) * std::numbers::ln2;
  return std::sqrt(a * (2 * (log_sets - std::log(alpha)) + std::log(a / kMixturePrecision))) / t;
}

std::optional<ForecastCoverage> CoverageOf(const ForecastCells& cells, const ForecastCounts& counts,
                                           const CoverageLevels& levels) {
  ForecastCoverage coverage;
  coverage.count = counts.count();
  if (coverage.count == 0) return std::nullopt;
  const std::vector<std::int64_t> all = counts.Cells();
  const auto n = static_cast<double>(coverage.count);
  coverage.error = ErrorOf(cells, all, n, levels.error);
  std::array<std::optional<CentralCells>, kCentralProbabilities.size()> central;
  for (std::size_t i = 0; i < central.size(); ++i) {
    central[i] = CentralCellsOf(cells.edges(), kCentralProbabilities[i]);
    if (!central[i]) continue;
    coverage.central[i] = CoverageOfCentral(cells, all, n, kCentralProbabilities[i], *central[i],
                                            levels.central / static_cast<double>(central.size()));
  }
  const auto distance = [&](std::size_t i) {
    return std::abs(coverage.central[i]->promised - kCentralProbabilities[i]);
  };
  // Leaves each interval where it is nearest to what it stands for.
  for (std::size_t i = 0; i < central.size(); ++i) {
    for (std::size_t j = i + 1; j < central.size() && coverage.central[i]; ++j) {
      if (!coverage.central[j] || central[i] != central[j]) continue;
      coverage.central[distance(i) <= distance(j) ? j : i].reset();
    }
  }
  return coverage;
}

}  // namespace calibd
