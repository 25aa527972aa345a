#include "server/state/coverage_watch.h"

#include <algorithm>
#include <utility>

namespace calibd::server {
ErrorInterval IntervalOf(const ForecastCoverage& coverage) noexcept {
  ErrorInterval interval{.estimate = coverage.error.estimate,
                         .lower = coverage.error.lower,
                         .upper = coverage.error.upper};
  const std::optional<CentralCoverage>& widest = coverage.central.back();
  if (widest.has_value()) {
    interval.gap = widest->promised - widest->coverage;
    interval.gap_lower = widest->promised - widest->upper;
    interval.gap_upper = widest->promised - widest->lower;
  }
  return interval;
}

ErrorReading ReadCoverage(const ErrorSnapshot& error) {
  ErrorReading reading;
  const CoverageSnapshot& coverage = *error.coverage;
  if (const auto since_start = coverage.SinceStart()) {
    reading.since_start[0] = IntervalOf(*since_start);
  }
  const std::optional<ForecastCoverage> now = coverage.Now();
  if (now.has_value()) reading.now[0] = IntervalOf(*now);
  if (error.over || error.acknowledged) {
    reading.status = LimitStatus::kOverLimit;
  } else if (now.has_value() && coverage.count >= error.min_observations &&
             now->error.upper <= error.error_limit) {
    reading.status = LimitStatus::kWithinLimit;
  } else if (now.has_value()) {
    const std::optional<double> total = ObservationsUntilCoverageDecided(
        *coverage.cells, coverage.sums.counts, coverage.levels, error.error_limit);
    if (total.has_value()) {
      // At most 10^16.
      const auto needed = std::max(static_cast<std::int64_t>(*total), error.min_observations);
      reading.observations_needed = std::max<std::int64_t>(1, needed - coverage.count);
    }
  }
  return reading;
}

CoverageWatch::CoverageWatch(std::shared_ptr<const ForecastCells> cells, double alpha,
                             double error_limit, std::int64_t min_observations,
                             std::int64_t first_observation)
    : cells_(std::move(cells)),
      levels_{.error = alpha / 2, .central = alpha / 2},
      error_limit_(error_limit),
      min_observations_(min_observations),
      since_start_{.first_observation = first_observation,
                   .start_time = std::nullopt,
                   .counts = ForecastCounts(cells_->cell_count())},
      sums_(since_start_) {}

double CoverageWatch::limit() const noexcept {
  return std::max(error_limit_, acknowledged_limit_.value_or(0));
}

void CoverageWatch::Add(const ForecastRow& row, std::int64_t observation) {
  ++count_;
  since_start_.counts.Add(row);
  sums_.counts.Add(row);
  Decide(observation);
}

void CoverageWatch::Decide(std::int64_t observation) {
  if (over_ || count_ < min_observations_ || count_ < next_decision_) return;
  // An observation changes t times the estimate by at most 1, and t times the margin never
  // decreases. So t (lower - limit) grows by less than 1, and t (upper - limit) falls by at most 1
  // + limit: until then the answer cannot change.
  const ForecastCoverage coverage = *CoverageOf(*cells_, sums_.counts, levels_);
  const auto count = static_cast<double>(count_);
  if (acknowledged_limit_.has_value() && coverage.error.upper <= error_limit_) {
    acknowledged_limit_.reset();
  }
  if (coverage.error.lower > limit()) {
    over_ = true;
    crossing_ = {.observation = observation,
                 .recent = false,
                 .limit = limit(),
                 .series = 0,
                 .interval = IntervalOf(coverage),
                 .first_observation = sums_.first_observation};
    return;
  }
  double rows = count * (limit() - coverage.error.lower);
  if (acknowledged_limit_.has_value()) {
    rows = std::min(rows, count * (coverage.error.upper - error_limit_) / (1 + error_limit_));
  }
  next_decision_ = count_ + std::max<std::int64_t>(1, static_cast<std::int64_t>(rows));
}

void CoverageWatch::SetTime(Time time) {
  if (!since_start_.start_time.has_value() &&
      (count_ > 0 || sums_.first_observation != since_start_.first_observation)) {
    since_start_.start_time = time;
  }
  if (!sums_.start_time.has_value() && count_ > 0) sums_.start_time = time;
}

void CoverageWatch::Restart(CoverageWatch empty) {
  empty.over_ = over_;
  empty.acknowledged_limit_ = acknowledged_limit_;
  *this = std::move(empty);
}

void CoverageWatch::SetLimit(double error_limit, std::int64_t observation) {
  error_limit_ = error_limit;
  next_decision_ = 0;
  Decide(observation);
}

std::optional<LimitCrossing> CoverageWatch::TakeCrossing() noexcept {
  return std::exchange(crossing_, std::nullopt);
}

void CoverageWatch::Acknowledge(std::int64_t observations) {
  double upper = error_limit_;
  if (const auto coverage = CoverageOf(*cells_, sums_.counts, levels_)) {
    upper = std::max(upper, coverage->error.upper);
  }
  acknowledged_limit_ = upper;
  over_ = false;
  sums_ = {.first_observation = observations + 1,
           .start_time = std::nullopt,
           .counts = ForecastCounts(cells_->cell_count())};
  count_ = 0;
  next_decision_ = 0;
}

ErrorSnapshot CoverageWatch::Snapshot() const {
  ErrorSnapshot snapshot{
      .budget = {},
      .since_start = {.first_observation = since_start_.first_observation,
                      .start_time = since_start_.start_time},
      .sums = {.first_observation = sums_.first_observation, .start_time = sums_.start_time},
      .limit = limit(),
      .error_limit = error_limit_,
      .acknowledged = acknowledged_limit_.has_value(),
      .over = over_,
      .over_recent = false,
      .min_observations = min_observations_,
      .marks = std::make_shared<std::vector<ErrorSums>>()};
  snapshot.coverage =
      std::make_shared<CoverageSnapshot>(CoverageSnapshot{.cells = cells_,
                                                          .levels = levels_,
                                                          .since_start = since_start_,
                                                          .sums = sums_,
                                                          .count = count_});
  return snapshot;
}

std::size_t CoverageWatch::MaxMemory(std::size_t cell_count) noexcept {
  const std::size_t counts = kStratumKinds * kForecastStrata * cell_count * sizeof(std::int64_t);
  return 3 * (sizeof(CoverageWatch) + sizeof(ErrorSnapshot) + 2 * counts);
}

}  // namespace calibd::server
