#include "server/kinds/numbers/forecast_sums.h"

#include <algorithm>
#include <cmath>
#include <utility>

#include "calibd/store/v1/store.pb.h"
#include "server/watch/stored_numbers.h"

namespace calibd::server {

void ForecastSums::Add(std::span<const ForecastRow> rows, std::size_t cell_count) {
  cells.resize(cell_count);
  count += static_cast<std::int64_t>(rows.size());
  for (const ForecastRow& row : rows) {
    ++cells[row.cell];
    if (row.ties > 0) equal.resize(cell_count - 1);
    for (std::size_t k = row.cell; k < std::size_t{row.cell} + row.ties; ++k) ++equal[k];
    AddScores(row);
  }
}

void ForecastSums::AddScores(const ForecastRow& row) noexcept {
  crps += row.crps;
  log_score += row.log_score;
  const double bounded = std::clamp(row.t, -kMostResidual, kMostResidual);
  t += bounded;
  t_square += bounded * bounded;
}

void ForecastSums::MergeScores(const ForecastSums& other) noexcept {
  crps += other.crps;
  log_score += other.log_score;
  t += other.t;
  t_square += other.t_square;
}

void ForecastSums::Merge(const ForecastSums& other) {
  if (other.count == 0) return;
  cells.resize(other.cells.size());
  count += other.count;
  for (std::size_t c = 0; c < cells.size(); ++c) cells[c] += other.cells[c];
  if (!other.equal.empty()) equal.resize(other.equal.size());
  for (std::size_t k = 0; k < other.equal.size(); ++k) equal[k] += other.equal[k];
  MergeScores(other);
}

ForecastCounts ForecastSums::ToCounts() const {
  ForecastCounts counts(cells.size());
  for (std::size_t kind = 0; kind < kStratumKinds; ++kind) {
    std::ranges::copy(cells, counts.strata.begin() + static_cast<std::ptrdiff_t>(
                                                         kind * kForecastStrata * cells.size()));
  }
  std::ranges::copy(equal, counts.equal.begin());
  counts.crps = crps;
  counts.log_score = log_score;
  counts.t = t;
  counts.t_square = t_square;
  return counts;
}

void CountsFields(StateFields& fields, ForecastCounts& counts) {
  using Stored = store::v1::ForecastCounts;
  fields(Stored::kStrataFieldNumber, counts.strata);
  std::vector<std::int64_t> equal;
  if (counts.has_ties()) equal = counts.equal;
  fields(Stored::kEqualFieldNumber, equal);
  if (fields.restoring()) {
    counts.equal = ForecastCounts(counts.cell_count()).equal;
    if (!equal.empty()) counts.equal = std::move(equal);
  }
  fields(Stored::kCrpsFieldNumber, counts.crps);
  fields(Stored::kLogScoreFieldNumber, counts.log_score);
  fields(Stored::kTFieldNumber, counts.t);
  fields(Stored::kTSquareFieldNumber, counts.t_square);
}

void ForecastSumsFields(StateFields& fields, ForecastSums& sums) {
  using Stored = store::v1::ForecastSums;
  fields(Stored::kCellsFieldNumber, sums.cells);
  fields(Stored::kEqualFieldNumber, sums.equal);
  fields.Require(sums.equal.empty() || sums.equal.size() + 1 == sums.cells.size(),
                 "has outcomes equal to quantiles that cannot be");
  fields(Stored::kCrpsFieldNumber, sums.crps);
  fields(Stored::kLogScoreFieldNumber, sums.log_score);
  fields(Stored::kTFieldNumber, sums.t);
  fields(Stored::kTSquareFieldNumber, sums.t_square);
  if (!fields.restoring()) return;
  sums.count = 0;
  for (const std::int64_t cell : sums.cells) {
    sums.count += cell;
    fields.Require(sums.count <= StateFields::kGreatestInteger, "has cells that cannot be");
    if (!fields.ok()) return;
  }
}

void DecisionFields(StateFields& fields, DecisionTotals& totals) {
  using Stored = store::v1::DecisionTotals;
  fields(Stored::kActionsFieldNumber, totals.actions);
  fields(Stored::kRealisedFieldNumber, totals.realised);
  fields(Stored::kExpectedFieldNumber, totals.expected);
  fields(Stored::kGapsFieldNumber, totals.gaps, MomentsFields);
  // A gap is in [-1, 1]; sums are rounded.
  constexpr double kRounding = 1 + 1e-6;
  fields.Require(totals.actions <= totals.gaps.count && totals.realised >= 0 &&
                     totals.expected >= 0 && std::abs(totals.gaps.mean) <= kRounding &&
                     totals.gaps.m2 <= kRounding * static_cast<double>(totals.gaps.count),
                 "has a decision that cannot be");
}

}  // namespace calibd::server
