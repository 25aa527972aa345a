#include "calibd/core/forecast_coverage.h"

#include <algorithm>
#include <cmath>
#include <numbers>
#include <numeric>
#include <span>
#include <variant>
#include <vector>

#include "calibd/core/error_interval.h"
#include "scores/continuations.h"

namespace calibd {
namespace {

constexpr std::size_t kEqualCells = 20;
// The precision of the normal mixture.
constexpr double kMixturePrecision = 50;
// The least square of the relative spread of the errors of the cells.
constexpr double kLeastSquaredCellSpread = 1e-7;
// The share of the level of a one-look interval that goes to the boundary of all times. A monitor
// has half of the level for all times, so one look is never wider.
constexpr double kAllTimesShare = 0.5;
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

// A cell of the coverage error: S_k and q_k.
struct CoverageCell {
  double sum = 0;
  double probability = 0;

  // q (S / (n q))^2, and what it is on average for calibrated forecasts.
  [[nodiscard]] double RelativeSquare(double n) const noexcept {
    return sum * sum / (n * n * probability);
  }
  [[nodiscard]] double RelativeError(double n) const noexcept { return (1 - probability) / n; }
};

// counts: n observations.
std::vector<CoverageCell> CoverageCells(const ForecastCells& cells,
                                        std::span<const std::int64_t> counts, double n) {
  std::vector<std::size_t> edges = ErrorEdges(cells);
  edges.push_back(cells.cell_count());
  std::vector<CoverageCell> result;
  std::size_t c = 0;
  for (const std::size_t edge : edges) {
    CoverageCell& cell = result.emplace_back();
    for (; c < edge; ++c) {
      cell.sum += static_cast<double>(counts[c]) - n * cells.probabilities()[c];
      cell.probability += cells.probabilities()[c];
    }
  }
  return result;
}

bool HasTies(std::span<const std::int64_t> equal) {
  return std::ranges::any_of(equal, [](std::int64_t count) { return count > 0; });
}

// A sum of the error of levels: how many outcomes are below a quantile, or at most equal to it, and
// how far this may be from its conditional expectation.
struct LevelSum {
  double count = 0;
  double width = 0;
};

// The boundary of a sum of n events that have the same stated probability. k: of the level.
double BoundaryOf(double n, double stated, double square_sum, double k, bool one_look) {
  if (!one_look) return MixtureBoundary(square_sum, k);
  return OneLookBoundary(n, n * stated * (1 - stated), k, kAllTimesShare)(square_sum, k);
}

// n outcomes. levels: of the error; edges: the declared levels, which share them.
LevelSum LevelSumOf(double count, double n, double edge, std::size_t edge_count,
                    const CoverageLevels& levels) {
  const double square_sum = count * (1 - edge) * (1 - edge) + (n - count) * edge * edge;
  // Two sums of each level, with two sides.
  const double k = std::log(4 * static_cast<double>(edge_count) / levels.error);
  return {.count = count, .width = BoundaryOf(n, edge, square_sum, k, levels.one_look)};
}

// Calls use(edge, below, at_most) for each level with its two sums. counts: n observations.
template <typename Use>
void ForEachLevel(std::span<const double> edges, std::span<const std::int64_t> counts,
                  std::span<const std::int64_t> equal, double n, const CoverageLevels& levels,
                  Use&& use) {
  double at_most = 0;
  for (std::size_t k = 0; k < edges.size(); ++k) {
    at_most += static_cast<double>(counts[k]);
    const double below = at_most - static_cast<double>(equal[k]);
    use(edges[k], LevelSumOf(below, n, edges[k], edges.size(), levels),
        LevelSumOf(at_most, n, edges[k], edges.size(), levels));
  }
}

// n times the error of levels and the ends of its interval.
struct LevelsError {
  double estimate = 0;
  double lower = 0;
  double upper = 0;

  // sum: of deviations that are at most 0 for exact quantiles.
  void Add(double sum, double width) noexcept {
    estimate = std::max(estimate, sum);
    lower = std::max(lower, sum - width);
    upper = std::max(upper, sum + width);
  }
};

LevelsError LevelsErrorOf(std::span<const double> edges, std::span<const std::int64_t> counts,
                          std::span<const std::int64_t> equal, double n,
                          const CoverageLevels& levels) {
  LevelsError error;
  ForEachLevel(edges, counts, equal, n, levels,
               [&](double edge, const LevelSum& below, const LevelSum& at_most) {
                 error.Add(below.count - n * edge, below.width);
                 error.Add(n * edge - at_most.count, at_most.width);
               });
  return error;
}

std::vector<LevelCoverage> LevelsOf(const ForecastCells& cells,
                                    std::span<const std::int64_t> counts,
                                    std::span<const std::int64_t> equal, double n,
                                    const CoverageLevels& levels) {
  std::vector<LevelCoverage> result;
  ForEachLevel(cells.edges(), counts, equal, n, levels,
               [&](double edge, const LevelSum& below, const LevelSum& at_most) {
                 result.push_back({.level = edge,
                                   .below = below.count / n,
                                   .at_most = at_most.count / n,
                                   .lower = std::max(0.0, (below.count - below.width) / n),
                                   .upper = std::min(1.0, (at_most.count + at_most.width) / n)});
               });
  return result;
}

// The plug-in estimate from n observations.
double EstimateOf(std::span<const CoverageCell> cells, double n) {
  double sum = 0;
  for (const CoverageCell& cell : cells) sum += std::abs(cell.sum);
  return std::min(1.0, sum / (2 * n));
}

// equal: of ForecastCounts.
CoverageError ErrorOf(const ForecastCells& cells, std::span<const std::int64_t> counts,
                      std::span<const std::int64_t> equal, double n, const CoverageLevels& levels) {
  const std::vector<CoverageCell> coverage_cells = CoverageCells(cells, counts, n);
  CoverageError error;
  error.cell_count = coverage_cells.size();
  if (HasTies(equal)) {
    const LevelsError own = LevelsErrorOf(cells.edges(), counts, equal, n, levels);
    error.estimate = own.estimate / n;
    error.lower = own.lower / n;
    error.upper = std::min(1.0, own.upper / n);
    return error;
  }
  error.estimate = EstimateOf(coverage_cells, n);
  const double margin = levels.one_look
                            ? OneLookCoverageErrorMargin(n, error.cell_count, levels.error)
                            : CoverageErrorMargin(n, error.cell_count, levels.error);
  error.lower = std::max(0.0, error.estimate - margin);
  error.upper = std::min(1.0, error.estimate + margin);
  return error;
}

// The outer one of two levels that are equally near.
std::optional<CentralInterval> CentralIntervalOf(std::span<const double> edges, double p) {
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
  return CentralInterval{
      .promised = edges[*upper] - edges[*lower], .first_cell = *lower + 1, .end_cell = *upper + 1};
}

CentralCoverage CoverageOfCentral(const ForecastCells& cells, std::span<const std::int64_t> counts,
                                  double n, double nominal, const CentralInterval& central,
                                  const CoverageLevels& levels) {
  CentralCoverage result;
  result.nominal = nominal;
  result.lower_level = cells.edges()[central.first_cell - 1];
  result.upper_level = cells.edges()[central.end_cell - 1];
  result.promised = central.promised;
  double inside = 0;
  for (std::size_t c = central.first_cell; c < central.end_cell; ++c) {
    inside += static_cast<double>(counts[c]);
  }
  const double promised = result.promised;
  const double squares =
      inside * (1 - promised) * (1 - promised) + (n - inside) * promised * promised;
  const double k = std::log(2 * static_cast<double>(kCentralProbabilities.size()) / levels.central);
  const double width = BoundaryOf(n, promised, squares, k, levels.one_look);
  result.coverage = inside / n;
  result.lower = std::max(0.0, (inside - width) / n);
  result.upper = std::min(1.0, (inside + width) / n);
  return result;
}

}  // namespace

CentralIntervals CentralIntervalsOf(const ForecastCells& cells) {
  CentralIntervals central;
  for (std::size_t i = 0; i < central.size(); ++i) {
    central[i] = CentralIntervalOf(cells.edges(), kCentralProbabilities[i]);
  }
  const auto distance = [&](std::size_t i) {
    return std::abs(central[i]->promised - kCentralProbabilities[i]);
  };
  // Leaves each interval where it is nearest to what it stands for.
  for (std::size_t i = 0; i < central.size(); ++i) {
    for (std::size_t j = i + 1; j < central.size() && central[i]; ++j) {
      const bool is_same = central[j] && central[i]->first_cell == central[j]->first_cell &&
                           central[i]->end_cell == central[j]->end_cell;
      if (is_same) central[distance(i) <= distance(j) ? j : i].reset();
    }
  }
  return central;
}

CoverageLevels StretchLevels(const CoverageLevels& start, std::int64_t mark) noexcept {
  const auto m = static_cast<double>(mark);
  const double share = 2 / ((m + 1) * (m + 2));
  return {
      .error = start.error * share, .central = start.central * share, .one_look = start.one_look};
}

CoveragePartition::CoveragePartition(const ForecastCells& cells)
    : ends_(ErrorEdges(cells)), edges_(cells.edges().begin(), cells.edges().end()) {
  ends_.push_back(cells.cell_count());
  std::size_t c = 0;
  for (const std::size_t end : ends_) {
    double probability = 0;
    for (; c < end; ++c) probability += cells.probabilities()[c];
    probabilities_.push_back(probability);
  }
}

CoveragePartition::Ends CoveragePartition::Interval(std::span<const std::int64_t> counts,
                                                    std::span<const std::int64_t> equal,
                                                    double alpha) const {
  const auto n =
      static_cast<double>(std::accumulate(counts.begin(), counts.end(), std::int64_t{0}));
  if (HasTies(equal)) {
    const LevelsError error = LevelsErrorOf(edges_, counts, equal, n, {.error = alpha});
    return {.lower = error.lower, .upper = error.upper};
  }
  double sum = 0;
  std::size_t c = 0;
  for (std::size_t k = 0; k < ends_.size(); ++k) {
    double own = -n * probabilities_[k];
    for (; c < ends_[k]; ++c) own += static_cast<double>(counts[c]);
    sum += std::abs(own);
  }
  const double margin = n * CoverageErrorMargin(n, cell_count(), alpha);
  return {.lower = sum / 2 - margin, .upper = sum / 2 + margin};
}

double CoverageErrorMargin(double count, std::size_t cell_count, double alpha) noexcept {
  const double a = count / 4 + kMixturePrecision;
  const double log_sets = static_cast<double>(cell_count - 1) * std::numbers::ln2;
  return std::sqrt(a * (2 * (log_sets - std::log(alpha)) + std::log(a / kMixturePrecision))) /
         count;
}

double OneLookCoverageErrorMargin(double count, std::size_t cell_count, double alpha) noexcept {
  const auto d = static_cast<double>(cell_count);
  const double log_sets = d * std::numbers::ln2 + std::log1p(-std::exp2(1 - d));
  return std::sqrt((log_sets - std::log(alpha)) / (2 * count));
}

std::optional<ForecastCoverage> CoverageOf(const ForecastCells& cells, const ForecastCounts& counts,
                                           const CoverageLevels& levels) {
  ForecastCoverage coverage;
  coverage.count = counts.count();
  if (coverage.count == 0) return std::nullopt;
  const std::vector<std::int64_t> all = counts.Cells();
  const auto n = static_cast<double>(coverage.count);
  coverage.error = ErrorOf(cells, all, counts.equal, n, levels);
  if (counts.has_ties()) {
    coverage.levels = LevelsOf(cells, all, counts.equal, n, levels);
    return coverage;
  }
  const CentralIntervals central = CentralIntervalsOf(cells);
  for (std::size_t i = 0; i < central.size(); ++i) {
    if (!central[i]) continue;
    coverage.central[i] =
        CoverageOfCentral(cells, all, n, kCentralProbabilities[i], *central[i], levels);
  }
  return coverage;
}

std::optional<RowsUntilDecided> ForeseeCoverageDecision(const ForecastCells& cells,
                                                        const ForecastCounts& counts,
                                                        const CoverageLevels& levels, double limit,
                                                        std::int64_t least_rows) {
  if (counts.count() < kLeastRowsToForesee || counts.has_ties()) return std::nullopt;
  const auto n = static_cast<double>(counts.count());
  const std::vector<CoverageCell> present = CoverageCells(cells, counts.Cells(), n);
  double squared_spread = 0;
  double spread_variance = 0;
  for (const CoverageCell& cell : present) {
    squared_spread += cell.RelativeSquare(n) - cell.RelativeError(n);
    spread_variance += 2 * std::pow(cell.RelativeError(n), 2);
  }

  struct Continuation {
    ContinuationNoise noise;
    // The errors and the sums of the cells.
    std::vector<double> error;
    std::vector<double> sum;
  };
  std::vector<Continuation> continuations;
  for (std::size_t i = 0; i < kContinuations; ++i) {
    Continuation& one = continuations.emplace_back(Continuation{ContinuationNoise(i), {}, {}});
    const double squared = std::max(squared_spread + std::sqrt(spread_variance) * one.noise.Next(),
                                    kLeastSquaredCellSpread);
    double total = 0;
    for (const CoverageCell& cell : present) {
      const double q = cell.probability;
      const double e = cell.RelativeError(n) / q;
      const double g = squared / (squared + e);
      one.error.push_back(g * cell.sum / n + q * std::sqrt(g * e) * one.noise.Next());
      one.sum.push_back(cell.sum);
      total += one.error.back();
    }
    for (std::size_t k = 0; k < present.size(); ++k) one.error[k] -= present[k].probability * total;
  }
  double margin = 0;
  const auto begin = [&](const ContinuationStep& step) {
    margin = CoverageErrorMargin(step.rows, present.size(), levels.error);
  };
  std::vector<double> drawn(present.size());
  const auto advance = [&](std::size_t i, const ContinuationStep& step) {
    Continuation& one = continuations[i];
    double total = 0;
    for (std::size_t k = 0; k < present.size(); ++k) {
      drawn[k] = std::sqrt(step.added * present[k].probability) * one.noise.Next();
      total += drawn[k];
    }
    double absolute_sum = 0;
    for (std::size_t k = 0; k < present.size(); ++k) {
      one.sum[k] += step.added * one.error[k] + drawn[k] - present[k].probability * total;
      absolute_sum += std::abs(one.sum[k]);
    }
    const double estimate = absolute_sum / (2 * step.rows);
    return estimate - margin > limit || estimate + margin <= limit;
  };
  return RangeOfDecisions(counts.count(), least_rows, begin, advance);
}

}  // namespace calibd
