#include "server/watch/error_watch.h"

#include <algorithm>
#include <bit>
#include <cmath>
#include <limits>
#include <utility>

#include "calibd/core/binary_predictions.h"
#include "server/watch/coverage_watch.h"

namespace calibd::server {
namespace {

// Observations between two marks, and the number of newest marks that are all kept.
constexpr std::int64_t kMarkSpacing = 1024;
constexpr std::int64_t kNewestMarks = 8;

struct Event {
  double stated;
  bool happened;
};

Event EventOf(const PredictionBatch& batch, std::size_t row, std::size_t series) noexcept {
  const std::span<const double> g = batch.row(row);
  const std::size_t k = series == 0 ? PredictedClass(g) : 1;
  // The sum of a row may exceed 1 by the tolerance, and so may a probability.
  return {.stated = std::min(g[k], 1.0),
          .happened = batch.labels[row] == static_cast<std::int32_t>(k)};
}

ErrorBudget Share(double alpha, bool recent, std::size_t class_count) noexcept {
  const std::size_t series = class_count == 2 ? 2 : 1;
  const double share = alpha / static_cast<double>(series);
  const double interval = recent ? share / 2 : share;
  return {.levels = {.bins = interval * 3 / 4, .gap = interval / 4},
          .recent = recent ? share / 2 : 0,
          .series = series};
}

std::optional<std::int64_t> ObservationsNeeded(const ErrorSnapshot& error) {
  std::int64_t needed = std::max<std::int64_t>(1, error.min_observations - error.sums.count());
  for (std::size_t s = 0; s < error.budget.series; ++s) {
    const std::optional<double> total =
        ObservationsUntilDecided(error.sums.series[s], error.budget.levels, error.error_limit);
    if (!total.has_value()) return std::nullopt;
    needed = std::max(needed, static_cast<std::int64_t>(*total) - error.sums.count());
  }
  return needed;
}

ErrorReading ComputeReading(const ErrorSnapshot& error) {
  if (error.coverage != nullptr) return ReadCoverage(error);
  ErrorReading reading;
  bool is_within = error.sums.count() >= error.min_observations;
  bool is_over = false;
  for (std::size_t s = 0; s < error.budget.series; ++s) {
    reading.since_start[s] = BinnedErrorInterval(error.since_start.series[s], error.budget.levels);
    reading.now[s] = BinnedErrorInterval(error.sums.series[s], error.budget.levels);
    is_within =
        is_within && reading.now[s].has_value() && reading.now[s]->upper <= error.error_limit;
    is_over = is_over || (reading.now[s].has_value() && reading.now[s]->lower > error.limit);
  }
  reading.is_recent = error.over && error.over_recent && !is_over;
  if (error.over || error.acknowledged) {
    reading.status = LimitStatus::kOverLimit;
  } else if (is_within) {
    reading.status = LimitStatus::kWithinLimit;
  } else {
    reading.observations_needed = ObservationsNeeded(error);
  }
  if (error.budget.recent > 0) {
    reading.stretch = WorstStretch(error.sums, *error.marks, error.recent_series,
                                   error.budget.levels, error.limit);
  }
  return reading;
}

}  // namespace

ErrorBudget ErrorBudget::OfModel(double alpha, std::size_t class_count) noexcept {
  return Share(alpha, true, class_count);
}

ErrorBudget ErrorBudget::OfGroup(double alpha, std::size_t groups,
                                 std::size_t class_count) noexcept {
  return Share(alpha / static_cast<double>(groups), false, class_count);
}

std::int64_t ErrorSnapshot::count() const noexcept {
  return coverage != nullptr ? coverage->count : sums.count();
}

const ErrorReading& ErrorSnapshot::Read() const {
  std::call_once(memo->once, [this] { memo->reading = ComputeReading(*this); });
  return memo->reading;
}

ErrorWatch::ErrorWatch(const ErrorBudget& budget, double error_limit, std::int64_t min_observations,
                       std::int64_t first_observation)
    : budget_(budget),
      error_limit_(error_limit),
      min_observations_(min_observations),
      marks_(std::make_shared<std::vector<ErrorSums>>()) {
  since_start_.first_observation = first_observation;
  sums_.first_observation = first_observation;
}

double ErrorWatch::limit() const noexcept {
  return std::max(error_limit_, acknowledged_limit_.value_or(0));
}

void ErrorWatch::AddRow(const PredictionBatch& batch, std::size_t row, std::int64_t observation) {
  ++count_;
  for (std::size_t s = 0; s < budget_.series; ++s) {
    const Event event = EventOf(batch, row, s);
    since_start_.series[s].Add(event.stated, event.happened);
    const std::size_t bin = sums_.series[s].Add(event.stated, event.happened);
    if (budget_.recent == 0) continue;
    recent_[s].Add(bin, event.stated - (event.happened ? 1 : 0), limit());
    if (!recent_series_.has_value() && recent_[s].Reaches(1 / budget_.recent)) recent_series_ = s;
  }
  Decide(observation);
  if (budget_.recent > 0 && count_ % kMarkSpacing == 0) KeepMark(observation);
}

void ErrorWatch::Decide(std::int64_t observation) {
  if ((over_ && !over_recent_) || count_ < min_observations_) return;
  if (count_ >= next_decision_) {
    // An observation changes a sum by at most 1, and the boundaries never decrease. So
    // count * (lower - limit) grows by less than 1, and count * (upper - limit) falls by at most
    // 1 + limit: until then the answer cannot change.
    const auto count = static_cast<double>(count_);
    double rows_to_over = std::numeric_limits<double>::infinity();
    double rows_to_within = 0;
    for (std::size_t s = 0; s < budget_.series; ++s) {
      const std::optional<ErrorInterval> interval =
          BinnedErrorInterval(sums_.series[s], budget_.levels);
      if (interval->lower > limit()) {
        over_recent_ = false;
        return over_ ? void() : Cross(observation, false, s);
      }
      rows_to_over = std::min(rows_to_over, count * (limit() - interval->lower));
      rows_to_within =
          std::max(rows_to_within, count * (interval->upper - error_limit_) / (1 + error_limit_));
    }
    if (acknowledged_limit_.has_value() && rows_to_within <= 0) {
      acknowledged_limit_.reset();
      return Decide(observation);
    }
    const double rows =
        acknowledged_limit_.has_value() ? std::min(rows_to_over, rows_to_within) : rows_to_over;
    next_decision_ = count_ + std::max<std::int64_t>(1, static_cast<std::int64_t>(rows));
  }
  if (!over_ && recent_series_.has_value()) Cross(observation, true, *recent_series_);
}

void ErrorWatch::Cross(std::int64_t observation, bool recent, std::size_t series) {
  over_ = true;
  over_recent_ = recent;
  crossing_ = {.observation = observation,
               .recent = recent,
               .limit = limit(),
               .series = series,
               .interval = *BinnedErrorInterval(sums_.series[series], budget_.levels),
               .first_observation = sums_.first_observation};
  if (!recent) return;
  const ErrorStretch stretch = *WorstStretch(sums_, *marks_, series, budget_.levels, limit());
  crossing_->interval = stretch.interval;
  crossing_->first_observation = stretch.first_observation;
}

void ErrorWatch::KeepMark(std::int64_t observation) {
  auto marks = std::make_shared<std::vector<ErrorSums>>(*marks_);
  marks->push_back(sums_);
  marks->back().first_observation = observation + 1;
  marks->back().start_time.reset();
  const std::int64_t newest = count_ / kMarkSpacing;
  std::erase_if(*marks, [newest](const ErrorSums& mark) {
    return !KeepsMark(mark.count() / kMarkSpacing, newest);
  });
  marks_ = std::move(marks);
}

void ErrorWatch::SetTime(Time time) {
  if (!since_start_.start_time.has_value() && since_start_.count() > 0) {
    since_start_.start_time = time;
  }
  if (!sums_.start_time.has_value() && count_ > 0) sums_.start_time = time;
  // A mark begins with the observation after it.
  if (marks_->empty() || marks_->back().start_time.has_value()) return;
  auto marks = std::make_shared<std::vector<ErrorSums>>(*marks_);
  for (ErrorSums& mark : *marks) {
    if (!mark.start_time.has_value()) mark.start_time = time;
  }
  marks_ = std::move(marks);
}

void ErrorWatch::Restart(ErrorWatch empty) {
  empty.over_ = over_;
  empty.over_recent_ = over_recent_;
  empty.acknowledged_limit_ = acknowledged_limit_;
  *this = std::move(empty);
}

void ErrorWatch::SetLimit(double error_limit, std::int64_t observation) {
  const double former = limit();
  error_limit_ = error_limit;
  if (limit() > former) RestartRecent();
  next_decision_ = 0;
  Decide(observation);
}

void ErrorWatch::RestartRecent() noexcept {
  recent_series_.reset();
  recent_ = {};
}

std::optional<LimitCrossing> ErrorWatch::TakeCrossing() noexcept {
  return std::exchange(crossing_, std::nullopt);
}

void ErrorWatch::Acknowledge(std::int64_t observations) {
  double upper = error_limit_;
  for (std::size_t s = 0; s < budget_.series; ++s) {
    const std::optional<ErrorInterval> interval =
        BinnedErrorInterval(sums_.series[s], budget_.levels);
    if (interval.has_value()) upper = std::max(upper, interval->upper);
    if (!over_recent_) continue;
    const std::optional<ErrorStretch> stretch =
        WorstStretch(sums_, *marks_, s, budget_.levels, limit());
    if (stretch.has_value()) upper = std::max(upper, stretch->interval.upper);
  }
  acknowledged_limit_ = upper;
  over_ = false;
  over_recent_ = false;
  RestartRecent();
  sums_ = {.first_observation = observations + 1, .start_time = std::nullopt, .series = {}};
  count_ = 0;
  next_decision_ = 0;
  marks_ = std::make_shared<std::vector<ErrorSums>>();
}

ErrorSnapshot ErrorWatch::Snapshot() const {
  ErrorSnapshot snapshot{.budget = budget_,
                         .since_start = since_start_,
                         .sums = sums_,
                         .limit = limit(),
                         .error_limit = error_limit_,
                         .acknowledged = acknowledged_limit_.has_value(),
                         .over = over_,
                         .over_recent = over_recent_,
                         .min_observations = min_observations_,
                         .marks = marks_};
  if (budget_.recent > 0) {
    snapshot.recent_series = recent_[1].value() > recent_[0].value() ? 1 : 0;
    const double value = recent_[snapshot.recent_series].value();
    if (value > 0) snapshot.recent_log10_e_value = std::log10(value);
    snapshot.recent_threshold = -std::log10(budget_.recent);
  }
  return snapshot;
}

std::size_t ErrorWatch::MaxMemory() noexcept {
  return sizeof(ErrorWatch) + 2 * kMostMarks * sizeof(ErrorSums);
}

bool KeepsMark(std::int64_t index, std::int64_t newest) noexcept {
  const std::int64_t age = newest - index;
  if (age < kNewestMarks) return true;
  return index % static_cast<std::int64_t>(std::bit_floor(static_cast<std::uint64_t>(age)) / 2) ==
         0;
}

std::optional<ErrorStretch> WorstStretch(const ErrorSums& sums, const std::vector<ErrorSums>& marks,
                                         std::size_t series, const ErrorLevels& levels,
                                         double limit) noexcept {
  std::optional<ErrorStretch> worst;
  double worst_excess = 0;
  const auto consider = [&](const ErrorSums& from, const ReliabilitySums& part) {
    const std::optional<ErrorInterval> interval = BinnedErrorInterval(part, levels);
    if (!interval.has_value()) return;
    const std::int64_t count = part.Total().count;
    // For a calibrated model the estimate is at most the root on average, by Jensen's inequality.
    const auto bins = std::count_if(part.bins.begin(), part.bins.end(),
                                    [](const auto& bin) { return bin.count > 0; });
    const double excess = static_cast<double>(count) * (interval->estimate - limit) -
                          std::sqrt(static_cast<double>(bins) * part.square_sum);
    if (worst.has_value() && excess <= worst_excess) return;
    worst_excess = excess;
    worst = {.first_observation = from.first_observation,
             .start_time = from.start_time,
             .observations = count,
             .interval = *interval};
  };
  consider(sums, sums.series[series]);
  for (const ErrorSums& mark : marks) {
    ReliabilitySums part = sums.series[series];
    part.Subtract(mark.series[series]);
    consider(mark, part);
  }
  return worst;
}

}  // namespace calibd::server
