#ifndef CALIBD_SERVER_KINDS_NUMBERS_FORECAST_SUMS_H_
#define CALIBD_SERVER_KINDS_NUMBERS_FORECAST_SUMS_H_

#include <cstdint>
#include <span>
#include <vector>

#include "calibd/core/decision_calibration.h"
#include "calibd/core/forecast_evidence.h"
#include "calibd/store/v1/store.pb.h"

namespace calibd::server {

// Sums over forecasts with their outcomes: ForecastCounts without strata, in an eighth of the
// memory. Those of parts that share no observation add.
struct ForecastSums {
  std::int64_t count = 0;
  // Observations of each of the K cells; empty before the first observation.
  std::vector<std::int64_t> cells;
  // As in ForecastCounts.
  double crps = 0;
  double log_score = 0;
  double t = 0;
  double t_square = 0;

  // rows: of forecasts with `cell_count` cells. May throw bad_alloc at the first call.
  void Add(std::span<const ForecastRow> rows, std::size_t cell_count);
  // May throw bad_alloc if this has no observation.
  void Merge(const ForecastSums& other);
  // Add only the scores, as ForecastCounts::Add does.
  void AddScores(const ForecastRow& row) noexcept;
  void MergeScores(const ForecastSums& other) noexcept;
  // The same counts in the first strata. Only functions of all strata together may use them.
  [[nodiscard]] ForecastCounts ToCounts() const;

  friend bool operator==(const ForecastSums&, const ForecastSums&) = default;
};

void PutCounts(const ForecastCounts& counts, store::v1::ForecastCounts& out);
// The result may be no valid counts.
[[nodiscard]] ForecastCounts GetCounts(const store::v1::ForecastCounts& stored);

void PutSums(const ForecastSums& sums, store::v1::ForecastSums& out);
// Returns false if the message does not hold such sums.
[[nodiscard]] bool GetSums(const store::v1::ForecastSums& stored, ForecastSums& out);

void PutDecisions(const DecisionTotals& totals, store::v1::DecisionTotals& out);
// Returns false if the message does not hold such totals.
[[nodiscard]] bool GetDecisions(const store::v1::DecisionTotals& stored, DecisionTotals& out);

}  // namespace calibd::server

#endif  // CALIBD_SERVER_KINDS_NUMBERS_FORECAST_SUMS_H_
