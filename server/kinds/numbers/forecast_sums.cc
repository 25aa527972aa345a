#include "server/kinds/numbers/forecast_sums.h"

#include <algorithm>
#include <cmath>

#include "server/watch/stored_numbers.h"

namespace calibd::server {

void ForecastSums::Add(std::span<const ForecastRow> rows, std::size_t cell_count) {
  cells.resize(cell_count);
  count += static_cast<std::int64_t>(rows.size());
  for (const ForecastRow& row : rows) {
    ++cells[row.cell];
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
  MergeScores(other);
}

ForecastCounts ForecastSums::ToCounts() const {
  ForecastCounts counts(cells.size());
  for (std::size_t kind = 0; kind < kStratumKinds; ++kind) {
    std::ranges::copy(cells, counts.strata.begin() + static_cast<std::ptrdiff_t>(
                                                         kind * kForecastStrata * cells.size()));
  }
  counts.crps = crps;
  counts.log_score = log_score;
  counts.t = t;
  counts.t_square = t_square;
  return counts;
}

void PutCounts(const ForecastCounts& counts, store::v1::ForecastCounts& out) {
  out.mutable_strata()->Add(counts.strata.begin(), counts.strata.end());
  out.set_crps(counts.crps);
  out.set_log_score(counts.log_score);
  out.set_t(counts.t);
  out.set_t_square(counts.t_square);
}

ForecastCounts GetCounts(const store::v1::ForecastCounts& stored) {
  ForecastCounts counts;
  counts.strata.assign(stored.strata().begin(), stored.strata().end());
  counts.crps = stored.crps();
  counts.log_score = stored.log_score();
  counts.t = stored.t();
  counts.t_square = stored.t_square();
  return counts;
}

void PutSums(const ForecastSums& sums, store::v1::ForecastSums& out) {
  out.mutable_cells()->Add(sums.cells.begin(), sums.cells.end());
  out.set_crps(sums.crps);
  out.set_log_score(sums.log_score);
  out.set_t(sums.t);
  out.set_t_square(sums.t_square);
}

bool GetSums(const store::v1::ForecastSums& stored, ForecastSums& out) {
  out.cells.assign(stored.cells().begin(), stored.cells().end());
  out.crps = stored.crps();
  out.log_score = stored.log_score();
  out.t = stored.t();
  out.t_square = stored.t_square();
  constexpr std::int64_t kGreatest = std::int64_t{1} << 53;
  bool valid = std::isfinite(out.crps) && std::isfinite(out.log_score) && std::isfinite(out.t) &&
               std::isfinite(out.t_square);
  for (const std::int64_t cell : out.cells) {
    valid = valid && cell >= 0 && cell <= kGreatest;
    out.count += valid ? cell : 0;
  }
  return valid;
}

void PutDecisions(const DecisionTotals& totals, store::v1::DecisionTotals& out) {
  out.set_actions(totals.actions);
  out.set_realised(totals.realised);
  out.set_expected(totals.expected);
  PutMoments(totals.gaps, *out.mutable_gaps());
}

bool GetDecisions(const store::v1::DecisionTotals& stored, DecisionTotals& out) {
  out = {.actions = stored.actions(),
         .realised = stored.realised(),
         .expected = stored.expected(),
         .gaps = GetMoments(stored.gaps())};
  // A gap is in [-1, 1]; sums are rounded.
  constexpr double kRounding = 1 + 1e-6;
  return out.gaps.count >= 0 && out.actions >= 0 && out.actions <= out.gaps.count &&
         IsSum(out.realised) && IsSum(out.expected) && std::abs(out.gaps.mean) <= kRounding &&
         IsSum(out.gaps.m2) && out.gaps.m2 <= kRounding * static_cast<double>(out.gaps.count);
}

}  // namespace calibd::server
