#ifndef CALIBD_CORE_FORECAST_COVERAGE_H_
#define CALIBD_CORE_FORECAST_COVERAGE_H_

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <vector>

#include "calibd/core/forecast_cells.h"
#include "calibd/core/forecast_evidence.h"
#include "calibd/core/rows_until_decided.h"

namespace calibd {

// How far the coverage of forecasts is off, in probability, with intervals that are valid for any
// sequence: observations need be neither independent nor identically distributed. A monitor's are
// valid at all times at once, those of a file for one look. All of it is a function of the counts,
// so it is the same for merged parts.

// The coverage error: the outcomes fall into d cells with the stated probabilities q_k. With S_k =
// sum_t ([cell_t = k] - q_k), and B_k the sum of the expectations of these terms given the forecast
// and the past, the running coverage error (1 / (2 t)) sum_k |B_k| is a total variation distance,
// the largest difference between stated and true probability of any set of cells, averaged over all
// observations so far. Its plug-in is (1 / (2 t)) sum_k |S_k|, biased upwards. Except with the
// probability alpha, at all t its distance from the plug-in is at most
//   sqrt((t/4 + 50) (2 log(2^(d-1) / alpha) + log((t/4 + 50) / 50))) / t.
// Derived: for each of the 2^(d-1) pairs of a set J of cells and its complement, sum_J (S_k - B_k)
// is a martingale whose steps lie in an interval of length 1, so that exp(l M - l^2 t / 8) is a
// supermartingale (Hoeffding 1963), mixed over l ~ N(0, 1/50) (Robbins 1970).
// For one look at a number of observations that was fixed before, l is fixed too: the distance is
// at most
//   sqrt((d log 2 + log(1 - 2^(1-d)) + log(1 / alpha)) / (2 t)),
// the bound of Hoeffding for each of the 2^d - 2 sets J other than none and all. It holds also if
// forecasts are made from earlier outcomes.
// The d cells: 20 cells between the edges nearest to .05, .10, ..., .95 (Normal: exactly these;
// samples: fewer if there are fewer ranks), or the cells between the declared levels.
//
// Where outcomes equal quantiles, the cells of these are not known. Then it is the error of the
// levels instead: with the levels tau_k of the declared quantiles q_k,
//   (1 / t) max_k max(0, sum_t (P(y < q_k) - tau_k), sum_t (tau_k - P(y <= q_k))),
// which is 0 for exact quantiles of any outcome. Its plug-in has [y < q_k] and [y <= q_k] in place
// of the probabilities. Each of these 2 K sums has the interval of error_interval.h with x = [y <
// q_k] - tau_k or [y <= q_k] - tau_k in one bin, at the level alpha / (2 K). So all of them hold
// together with the probability 1 - alpha, from the first outcome on that equals a quantile; the
// total variation distance before it has its own alpha.
struct CoverageError {
  // d.
  std::size_t cell_count = 0;
  // In [0, 1].
  double estimate = 0;
  double lower = 0;
  double upper = 1;
};

// The share of outcomes in the central interval of the forecast, against the share that it
// promises. The ends of the interval are the cell edges nearest to (1 - p) / 2 and (1 + p) / 2,
// with p = .5, .8 and .9: exactly these for Normal forecasts, declared levels for quantiles, and
// ranks for samples. An outcome equal to the lower end is outside, one equal to the upper end
// inside.
struct CentralCoverage {
  // p.
  double nominal = 0;
  // The edges and their difference, the promise. 0 <= lower_level < upper_level <= 1.
  double lower_level = 0;
  double upper_level = 1;
  double promised = 0;
  // The share of outcomes inside. Its interval is of the average conditional probability to be
  // inside, from error_interval.h with x = promised - [inside] in one bin. For one look its rate
  // depends on the promise and the number of observations alone.
  double coverage = 0;
  double lower = 0;
  double upper = 1;
};
inline constexpr std::array kCentralProbabilities = {.5, .8, .9};

// A central interval of the forecasts: the outcomes in the cells [first_cell, end_cell) are inside.
struct CentralInterval {
  double promised = 0;
  std::size_t first_cell = 0;
  std::size_t end_cell = 0;

  // promised - [inside]. cell: of the outcome.
  [[nodiscard]] double Deviation(std::size_t cell) const noexcept {
    return promised - (first_cell <= cell && cell < end_cell ? 1 : 0);
  }
};

// By kCentralProbabilities. Unset if no two edges lie on different sides of 1/2, such as with one
// declared level; and if another p has the same interval, and is as near to its promise or nearer.
using CentralIntervals = std::array<std::optional<CentralInterval>, kCentralProbabilities.size()>;
[[nodiscard]] CentralIntervals CentralIntervalsOf(const ForecastCells& cells);

// How many outcomes fell below the quantile of a declared level. The level is right if it is
// between P(y < q) and P(y <= q).
struct LevelCoverage {
  double level = 0;
  // The shares of outcomes below the quantile, and of those at most equal to it.
  double below = 0;
  double at_most = 0;
  // The lower end of the interval of the average P(y < q), and the upper end of that of P(y <= q),
  // in [0, 1]: a right level is between them. Those of all levels hold together, see
  // CoverageError.
  double lower = 0;
  double upper = 1;
};

struct ForecastCoverage {
  std::int64_t count = 0;
  CoverageError error;
  // All declared levels, ascending, where outcomes equal quantiles; else empty.
  std::vector<LevelCoverage> levels;
  // Of CentralIntervals. All are unset where outcomes equal quantiles: such an outcome is on the
  // end of an interval, and exact quantiles promise nothing of the share inside then.
  std::array<std::optional<CentralCoverage>, kCentralProbabilities.size()> central;

  // The last of `central` that is set; null if none is.
  [[nodiscard]] const CentralCoverage* widest() const noexcept {
    const auto last = std::find_if(central.rbegin(), central.rend(),
                                   [](const auto& one) { return one.has_value(); });
    return last == central.rend() ? nullptr : &**last;
  }
};

// The probabilities with which the intervals may be wrong. `central` is shared equally among the
// three central intervals.
struct CoverageLevels {
  double error = 0.025;
  double central = 0.025;
  // Whether they hold for one look at a number of observations that was fixed before, in place of
  // all times at once.
  bool one_look = false;
};

// The levels of the stretch of observations since the `mark`-th mark of a stream, from 1, where
// those of the stretch since its start, which is mark 0, are `start`: 2 / ((mark + 1) (mark + 2))
// times as much. Over all marks they add up to twice the levels of the start, so the intervals of
// all stretches hold together at these, at all times, and whatever stretch is chosen by the data.
[[nodiscard]] CoverageLevels StretchLevels(const CoverageLevels& start, std::int64_t mark) noexcept;

// The cells of the coverage error, for repeated estimates of it.
class CoveragePartition {
 public:
  explicit CoveragePartition(const ForecastCells& cells);

  // d, at least 2.
  [[nodiscard]] std::size_t cell_count() const noexcept { return ends_.size(); }
  // The ends of the interval of the coverage error at all times, times the number of observations;
  // not cut to [0, 1]. An observation raises the lower and lowers the upper one by at most 1,
  // except the first one that equals a quantile.
  struct Ends {
    double lower = 0;
    double upper = 0;
  };
  // counts: of the K cells of the ForecastCells, at least one observation. equal: as in
  // ForecastCounts, or empty if it has no ties. alpha: in (0, 1). Cost: O(K).
  [[nodiscard]] Ends Interval(std::span<const std::int64_t> counts,
                              std::span<const std::int64_t> equal, double alpha) const;

 private:
  // The end of the range of each cell among the K cells, and its probability.
  std::vector<std::size_t> ends_;
  std::vector<double> probabilities_;
  // The inner edges of the K cells, which are the declared levels of quantiles.
  std::vector<double> edges_;
};

// The coverage error that is acceptable if nothing else is said: 5 percentage points.
inline constexpr double kDefaultCoverageLimit = 0.05;

// counts: one for each of cells.cell_count() cells. levels: in (0, 1). Unset without observations.
// Cost: O(K).
[[nodiscard]] std::optional<ForecastCoverage> CoverageOf(const ForecastCells& cells,
                                                         const ForecastCounts& counts,
                                                         const CoverageLevels& levels);

// How many further observations decide whether the coverage error is within the limit, by 100
// continuations as in rows_until_decided.h. A continuation has the probability q_k + beta_k in cell
// k. With b_k = S_k / n and e_k = (1 - q_k) / (n q_k), the variance of b_k / q_k of calibrated
// forecasts:
// - the square of the relative spread of the errors is drawn from N(m, 2 sum_k (q_k e_k)^2), m =
//   sum_k q_k ((b_k / q_k)^2 - e_k), the estimate by moments, but at least 1e-7;
// - beta_k = g_k b_k + q_k sqrt(g_k e_k) N(0, 1), g_k = spread^2 / (spread^2 + e_k), the posterior
//   of a Normal deviation with a Normal error, less q_k times their sum, so that they sum to 0.
// With h further observations S_k grows by h beta_k + sqrt(h) (sqrt(q_k) Z_k - q_k sum_j sqrt(q_j)
// Z_j), Z ~ N(0, I), whose covariance is that of h outcomes. A continuation is decided when the
// interval over all observations leaves the limit outside. The stretches of newest observations
// are not followed: while the forecasts stay as they are, they are decided later.
//
// counts, levels: as for CoverageOf, at all times. least_rows: number of observations before the
// first decision. Unset with fewer than 1000 observations, where outcomes equal quantiles, and if
// no range can be foreseen. Cost: at most some milliseconds.
[[nodiscard]] std::optional<RowsUntilDecided> ForeseeCoverageDecision(const ForecastCells& cells,
                                                                      const ForecastCounts& counts,
                                                                      const CoverageLevels& levels,
                                                                      double limit,
                                                                      std::int64_t least_rows);

// Half the width of the interval of the coverage error at all times, and for one look: the
// distances above. count: t >= 1. cell_count: d >= 2.
[[nodiscard]] double CoverageErrorMargin(double count, std::size_t cell_count,
                                         double alpha) noexcept;
[[nodiscard]] double OneLookCoverageErrorMargin(double count, std::size_t cell_count,
                                                double alpha) noexcept;

}  // namespace calibd

#endif  // CALIBD_CORE_FORECAST_COVERAGE_H_
