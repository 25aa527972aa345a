#ifndef CALIBD_SERVER_KINDS_NUMBERS_FORECAST_SUMS_H_
#define CALIBD_SERVER_KINDS_NUMBERS_FORECAST_SUMS_H_

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "calibd/core/decision_calibration.h"
#include "calibd/core/forecast_evidence.h"
#include "server/watch/state_fields.h"

namespace calibd::server {

// Sums over forecasts with their outcomes: ForecastCounts without strata, in an eighth of the
// memory. Those of parts that share no observation add.
struct ForecastSums {
  std::int64_t count = 0;
  // Observations of each of the K cells; empty before the first observation.
  std::vector<std::int64_t> cells;
  // As in ForecastCounts, by level; empty before an outcome equals a quantile.
  std::vector<std::int64_t> equal;
  // As in ForecastCounts.
  double crps = 0;
  double log_score = 0;
  double t = 0;
  double t_square = 0;

  [[nodiscard]] std::size_t allocated_bytes() const noexcept {
    return (cells.capacity() + equal.capacity()) * sizeof(std::int64_t);
  }
  // rows: of forecasts with `cell_count` cells. May throw bad_alloc at the first call, and at the
  // first outcome that equals a quantile.
  void Add(std::span<const ForecastRow> rows, std::size_t cell_count);
  // May throw bad_alloc if this has no observation, or none that equals a quantile.
  void Merge(const ForecastSums& other);
  // Add only the scores, as ForecastCounts::Add does.
  void AddScores(const ForecastRow& row) noexcept;
  void MergeScores(const ForecastSums& other) noexcept;
  // The same counts in the first strata. Only functions of all strata together may use them.
  [[nodiscard]] ForecastCounts ToCounts() const;

  friend bool operator==(const ForecastSums&, const ForecastSums&) = default;
};

// The fields in the store, as StateFields visits them. Restored ForecastCounts may be no valid
// ones.
void CountsFields(StateFields& fields, ForecastCounts& counts);
void ForecastSumsFields(StateFields& fields, ForecastSums& sums);
void DecisionFields(StateFields& fields, DecisionTotals& totals);

}  // namespace calibd::server

#endif  // CALIBD_SERVER_KINDS_NUMBERS_FORECAST_SUMS_H_
