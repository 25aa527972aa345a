#ifndef CALIBD_CORE_FORECAST_COUNTS_H_
#define CALIBD_CORE_FORECAST_COUNTS_H_

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "calibd/core/forecast_cells.h"
#include "calibd/core/forecast_experts.h"

namespace calibd {

// Sums over the observations of a stream of forecasts. The sums of parts that share no observation
// add up. The difference of two snapshots is the sum over the observations between them.
struct ForecastCounts {
  // Observations by stratum kind, stratum and cell: kStratumKinds x kForecastStrata x K. A tied
  // outcome counts in the lowest cell that it fits.
  std::vector<std::int64_t> strata;
  // By level: how many outcomes equal its quantile. K - 1.
  std::vector<std::int64_t> equal;
  // Sums of the scores of ForecastRow, and of t within kMostResidual and of its
  // square.
  double crps = 0;
  double log_score = 0;
  double t = 0;
  double t_square = 0;

  ForecastCounts() = default;
  explicit ForecastCounts(std::size_t cell_count)
      : strata(kStratumKinds * kForecastStrata * cell_count),
        equal(cell_count > 0 ? cell_count - 1 : 0) {}

  void Add(const ForecastRow& row) noexcept;
  // other: has as many cells.
  void Merge(const ForecastCounts& other) noexcept;
  // Leaves the sums over the later observations. earlier: of the first ones.
  void Subtract(const ForecastCounts& earlier) noexcept;

  [[nodiscard]] std::size_t cell_count() const noexcept {
    return strata.size() / (kStratumKinds * kForecastStrata);
  }
  // The K counts of a stratum, and those of all strata together.
  [[nodiscard]] std::span<const std::int64_t> Of(StratumKind kind, std::size_t stratum) const;
  [[nodiscard]] std::vector<std::int64_t> Cells() const;
  [[nodiscard]] std::int64_t count() const noexcept;
  // True if an outcome equals a quantile of its forecast.
  [[nodiscard]] bool has_ties() const noexcept;
  // True if the counts are those of one sequence of observations with finite sums.
  [[nodiscard]] bool IsValid() const noexcept;

  friend bool operator==(const ForecastCounts&, const ForecastCounts&) = default;
};

// The evidence without tied outcomes is a function of the counts alone: with n observations, O_c in
// cell c,
//   log W_histogram = lgamma(kappa) - lgamma(n + kappa)
//                     + sum_c [lgamma(O_c + kappa p_c) - lgamma(kappa p_c) - O_c ln p_c],
//   log W_location_scale = sum_c O_c ln e(c),
// each minus n log1p(tolerance). So it does not depend on the order of the observations, and that
// of several parts is that of their merged counts. Only maxima, drift and times depend on the
// order. counts: of cells.cell_count() cells, without ties. Cost: O(K experts), some 15
// microseconds for 24 cells.
[[nodiscard]] MixedForecastEvidence EvidenceOf(const ForecastCells& cells,
                                               const ForecastCounts& counts);

// The evidence that names a direction: an e-value of 100.
inline constexpr double kNamedLogEvidence = 4.6;

// Which way forecasts are off: the Normal distribution with the largest likelihood of the cells.
// shift > 0: outcomes are larger than forecast. scale > 1: the forecasts are too narrow; always 1
// for two cells, which do not tell it. Below kNamedLogEvidence the direction is unknown: shift 0
// and scale 1.
struct ForecastDirection {
  LocationScale best;
  // The share of the location-scale expert with the largest e-value among the 69, or 0.
  double share = 0;
  // ln of the mean of the 69 e-processes.
  double log_e_value = 0;
};
// counts: one for each of K cells, such as ForecastCounts::Cells or Of.
[[nodiscard]] ForecastDirection DirectionOf(const ForecastCells& cells,
                                            std::span<const std::int64_t> counts);

// A cell whose count differs from its expectation.
struct CellDeviation {
  std::size_t cell = 0;
  // The cell is (lower, upper] of the PIT.
  double lower = 0;
  double upper = 1;
  std::int64_t count = 0;
  double expected = 0;
  // (count - expected) / sqrt(n pi (1 - pi)); 0 without observations.
  double z = 0;
  // See StandsOut in running_reliability.h, with K places: for one look at a chosen n. False below
  // kLeastStandOut observations.
  bool stands_out = false;
};
// All cells in order.
[[nodiscard]] std::vector<CellDeviation> CellDeviations(const ForecastCells& cells,
                                                        std::span<const std::int64_t> counts);

}  // namespace calibd

#endif  // CALIBD_CORE_FORECAST_COUNTS_H_
