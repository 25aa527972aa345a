#include "server/kinds/classes/class_measure.h"

#include <algorithm>
#include <cmath>
#include <span>
#include <utility>

#include "calibd/core/binary_predictions.h"
#include "calibd/core/error_decision.h"
#include "calibd/core/newest_stretch.h"
#include "server/watch/stored_numbers.h"

namespace calibd::server {
namespace {

ErrorBudget Share(double alpha, bool recent, std::size_t class_count) noexcept {
  const std::size_t series = class_count == 2 ? 2 : 1;
  const double share = alpha / static_cast<double>(series);
  const double interval = recent ? share / 2 : share;
  return {.levels = {.bins = interval * 3 / 4, .gap = interval / 4},
          .recent = recent ? share / 2 : 0,
          .series = series};
}

void RecentFields(StateFields& fields, RecentErrorEvidence::State& state) {
  using Stored = store::v1::ErrorState::Recent;
  fields(Stored::kCountFieldNumber, state.count);
  fields(Stored::kWealthFieldNumber, state.wealth);
  fields.Column(Stored::kDeviationsFieldNumber, state.deviation);
  fields.Column(Stored::kSquaresFieldNumber, state.squares);
  bool fits = true;
  for (const auto& sign : state.wealth) fits = fits && std::ranges::min(sign) >= 0;
  fields.Require(fits && std::ranges::min(state.squares) >= 0, "has a recent error that cannot be");
}

// The ends of a stretch after an alarm, for RecoveredAfterChange and OverAgainSince.
auto EndsOfStretch(std::size_t series) noexcept {
  return [series](const ErrorSums& part, double level) {
    const ErrorLevels levels = RecoveryLevels(level).SharedBy(series);
    ErrorEnds worst{.lower = 0, .upper = 0};
    for (std::size_t s = 0; s < series; ++s) {
      const ErrorInterval interval = *BinnedErrorInterval(part.series[s], levels);
      worst.lower = std::max(worst.lower, interval.lower);
      worst.upper = std::max(worst.upper, interval.upper);
    }
    return worst;
  };
}

// A stretch that was chosen by its error.
struct WorstStretch {
  std::int64_t first_observation = 1;
  double upper = 0;
};

// Of the stretches of a series that begin at a mark or with the sums, the one that exceeds the
// limit most clearly; unset without observations.
std::optional<WorstStretch> FindWorst(const ErrorSums& sums, const std::vector<ErrorSums>& marks,
                                      std::size_t series, const ErrorLevels& levels,
                                      double limit) noexcept {
  std::optional<WorstStretch> worst;
  double worst_excess = 0;
  const auto consider = [&](const ErrorSums& from, const ReliabilitySums& part) {
    const std::optional<ErrorInterval> interval = BinnedErrorInterval(part, levels);
    if (!interval.has_value()) return;
    // For a calibrated model the estimate is at most the root on average, by Jensen's inequality.
    const auto bins = std::count_if(part.bins.begin(), part.bins.end(),
                                    [](const auto& bin) { return bin.count > 0; });
    const double excess = static_cast<double>(part.Total().count) * (interval->estimate - limit) -
                          std::sqrt(static_cast<double>(bins) * part.square_sum);
    if (worst.has_value() && excess <= worst_excess) return;
    worst_excess = excess;
    worst = {.first_observation = from.first_observation, .upper = interval->upper};
  };
  consider(sums, sums.series[series]);
  for (const ErrorSums& mark : marks) {
    ReliabilitySums part = sums.series[series];
    part.Subtract(mark.series[series]);
    consider(mark, part);
  }
  return worst;
}

}  // namespace

ErrorReading MeasuredClassError::Read(const ErrorSnapshot& error) const {
  ErrorReading reading;
  bool is_within = error.count >= error.min_observations;
  bool is_over = false;
  for (std::size_t s = 0; s < budget.series; ++s) {
    reading.since_start[s] = BinnedErrorInterval(since_start.series[s], budget.levels);
    reading.now[s] = BinnedErrorInterval(sums.series[s], budget.levels);
    is_within =
        is_within && reading.now[s].has_value() && reading.now[s]->upper <= error.error_limit;
    is_over = is_over || (reading.now[s].has_value() && reading.now[s]->lower > error.limit);
  }
  reading.is_recent = error.over && error.over_recent && !is_over;
  if (error.over || error.acknowledged) {
    reading.status = LimitStatus::kOverLimit;
  } else if (is_within) {
    reading.status = LimitStatus::kWithinLimit;
  }
  std::optional<std::int64_t> start;
  ErrorLevels levels = kSingleErrorLevels;
  if (error.over) start = RecoveredAfterChange(error, sums, *marks, EndsOfStretch(budget.series));
  reading.recovered = start.has_value();
  if (reading.recovered) {
    levels = RecoveryLevels(RecoveryLevel(error.over_at, *start));
  } else if (budget.recent > 0) {
    start = NewestStart(error.count);
  }
  if (!start.has_value()) return reading;
  const ErrorSums part = Since(*start);
  ErrorStretch& newest = reading.newest.emplace();
  newest.start = *start;
  newest.first_observation = part.first_observation;
  newest.start_time = part.start_time;
  newest.observations = part.count();
  for (std::size_t s = 0; s < budget.series; ++s) {
    newest.intervals[s] = BinnedErrorInterval(part.series[s], levels.SharedBy(budget.series));
  }
  return reading;
}

std::optional<std::int64_t> MeasuredClassError::OverAgainSince(const ErrorSnapshot& error) const {
  const auto start = server::OverAgainSince(sums, *marks, error.over_at, error.error_limit,
                                            EndsOfStretch(budget.series));
  if (!start.has_value()) return std::nullopt;
  return Since(*start).first_observation;
}

std::optional<RowsUntilDecided> MeasuredClassError::Foresee(const ErrorSnapshot& error) const {
  std::vector<UndecidedEvent> events;
  for (std::size_t s = 0; s < budget.series; ++s) {
    events.push_back(
        {.sums = sums.series[s], .recent = recent_states.empty() ? nullptr : &recent_states[s]});
  }
  return ForeseeErrorDecision(events, budget.levels, budget.recent, error.error_limit,
                              error.min_observations);
}

ErrorSums MeasuredClassError::Since(std::int64_t start) const noexcept {
  return SumsSince(sums, *marks, start);
}

ErrorBudget ErrorBudget::OfModel(double alpha, std::size_t class_count) noexcept {
  return Share(alpha, true, class_count);
}

ErrorBudget ErrorBudget::OfGroup(double alpha, std::size_t groups,
                                 std::size_t class_count) noexcept {
  return Share(alpha / static_cast<double>(groups), false, class_count);
}

ClassMeasure::Event ClassMeasure::EventOf(const Row& row, std::size_t series) noexcept {
  const std::span<const double> g = row.batch.row(row.index);
  const std::size_t k = series == 0 ? PredictedClass(g) : 1;
  // The sum of a row may exceed 1 by the tolerance, and so may a probability.
  return {.stated = std::min(g[k], 1.0),
          .happened = row.batch.labels[row.index] == static_cast<std::int32_t>(k)};
}

void ClassMeasure::Add(const Row& row, double limit, Sums& since_start, Sums& sums,
                       std::span<EventDeviations> deviations) {
  for (std::size_t s = 0; s < budget_.series; ++s) {
    const Event event = EventOf(row, s);
    since_start.series[s].Add(event.stated, event.happened);
    const std::size_t bin = sums.series[s].Add(event.stated, event.happened);
    if (budget_.recent == 0) continue;
    const double x = event.stated - (event.happened ? 1 : 0);
    deviations[s].blocks.Add(x);
    recent_[s].Add(bin, x, limit);
    if (!recent_series_.has_value() && recent_[s].Reaches(1 / budget_.recent)) recent_series_ = s;
  }
}

LimitCheck ClassMeasure::Check(const Sums& sums, std::int64_t count, double limit,
                               double error_limit) const noexcept {
  // An observation changes a sum by at most 1, and the boundaries never decrease. So
  // count * (lower - limit) grows by less than 1, and count * (upper - limit) falls by at most
  // 1 + limit: until then the answer cannot change.
  const auto n = static_cast<double>(count);
  LimitCheck check;
  for (std::size_t s = 0; s < budget_.series; ++s) {
    const std::optional<ErrorInterval> interval = Interval(sums, s);
    if (interval->lower > limit) {
      check.over = s;
      return check;
    }
    check.rows_to_over = std::min(check.rows_to_over, n * (limit - interval->lower));
    check.rows_to_within =
        std::max(check.rows_to_within, n * (interval->upper - error_limit) / (1 + error_limit));
  }
  return check;
}

std::optional<ErrorEnds> ClassMeasure::Ends(const Sums& sums, std::int64_t count, double limit,
                                            bool recent) const noexcept {
  if (count == 0) return std::nullopt;
  ErrorEnds largest{.lower = 0, .upper = 0};
  for (std::size_t s = 0; s < budget_.series; ++s) {
    const std::optional<ErrorInterval> interval = Interval(sums, s);
    largest.lower = std::max(largest.lower, interval->lower);
    largest.upper = std::max(largest.upper, interval->upper);
    // A limit, and no statement about the error, may be chosen in hindsight.
    if (!recent) continue;
    if (const auto worst = FindWorst(sums, *marks_.values(), s, budget_.levels, limit)) {
      largest.upper = std::max(largest.upper, worst->upper);
    }
  }
  return largest;
}

std::optional<ErrorStretch> ClassMeasure::Recent(const Sums& sums, std::size_t series,
                                                 std::int64_t /*count*/,
                                                 double limit) const noexcept {
  const auto worst = FindWorst(sums, *marks_.values(), series, budget_.levels, limit);
  if (!worst.has_value()) return std::nullopt;
  ErrorStretch stretch;
  stretch.first_observation = worst->first_observation;
  return stretch;
}

void ErrorSums::Subtract(const ErrorSums& earlier) noexcept {
  for (std::size_t s = 0; s < series.size(); ++s) series[s].Subtract(earlier.series[s]);
}

void ClassMeasure::RestartRecent() noexcept {
  recent_series_.reset();
  recent_ = {};
}

void ClassMeasure::Restart() {
  RestartRecent();
  marks_.Clear();
}

std::shared_ptr<const MeasuredError> ClassMeasure::Snapshot(const Sums& since_start,
                                                            const Sums& sums,
                                                            std::int64_t /*count*/) const {
  auto snapshot = std::make_shared<MeasuredClassError>();
  snapshot->budget = budget_;
  snapshot->since_start = since_start;
  snapshot->sums = sums;
  snapshot->marks = marks_.values();
  if (budget_.recent > 0) {
    snapshot->recent_series = recent_[1].value() > recent_[0].value() ? 1 : 0;
    const double value = recent_[snapshot->recent_series].value();
    if (value > 0) snapshot->recent_log10_e_value = std::log10(value);
    snapshot->recent_threshold = -std::log10(budget_.recent);
    for (std::size_t s = 0; s < budget_.series; ++s) {
      snapshot->recent_states.push_back(recent_[s].state());
    }
  }
  return snapshot;
}

void ClassMeasure::SumsFields(StateFields& fields, Sums& sums) const {
  using Stored = store::v1::ErrorState::Sums;
  fields(Stored::kFirstObservationFieldNumber, sums.first_observation);
  fields(Stored::kStartTimeUsFieldNumber, sums.start_time);
  const std::span<ReliabilitySums> series = std::span(sums.series).first(budget_.series);
  fields.Each(Stored::kSeriesFieldNumber, series, server::SumsFields);
  const bool fits = std::ranges::all_of(
      series, [&](const ReliabilitySums& one) { return one.Total().count == sums.count(); });
  fields.Require(fits && sums.first_observation > 0, "has sums of the error that cannot be");
}

void ClassMeasure::Fields(StateFields& fields, const Sums& /*sums*/) {
  using Stored = store::v1::ErrorState;
  std::array<RecentErrorEvidence::State, 2> recent;
  for (std::size_t s = 0; s < recent.size(); ++s) recent[s] = recent_[s].state();
  fields.Each(Stored::kRecentFieldNumber,
              std::span(recent).first(budget_.recent > 0 ? budget_.series : 0), RecentFields);
  for (std::size_t s = 0; s < recent.size(); ++s) recent_[s] = RecentErrorEvidence(recent[s]);
  fields(Stored::kRecentSeriesFieldNumber, recent_series_);
  fields.Require(recent_series_.value_or(0) < budget_.series, "has a recent error that cannot be");
  marks_.Fields(fields, [this](StateFields& inner, Sums& mark) { SumsFields(inner, mark); });
}

std::size_t ClassMeasure::MaxMemory() noexcept {
  // Two snapshots have the recent error of two series.
  return sizeof(ClassErrorWatch) + 2 * kMostMarks * sizeof(ErrorSums) +
         std::size_t{2} * 2 * sizeof(RecentErrorEvidence::State);
}

}  // namespace calibd::server
