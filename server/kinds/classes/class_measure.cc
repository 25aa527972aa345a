#include "server/kinds/classes/class_measure.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <utility>

#include "calibd/core/binary_predictions.h"
#include "server/watch/stored_numbers.h"

namespace calibd::server {
namespace {

// Observations between two marks.
constexpr std::int64_t kMarkSpacing = 1024;

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

std::optional<std::int64_t> ObservationsNeeded(const ErrorSnapshot& error,
                                               const MeasuredClassError& measured) {
  std::int64_t needed = std::max<std::int64_t>(1, error.min_observations - error.count);
  for (std::size_t s = 0; s < measured.budget.series; ++s) {
    const std::optional<double> total = ObservationsUntilDecided(
        measured.sums.series[s], measured.budget.levels, error.error_limit);
    if (!total.has_value()) return std::nullopt;
    needed = std::max(needed, static_cast<std::int64_t>(*total) - error.count);
  }
  return needed;
}

template <std::size_t kSize>
bool Get(const google::protobuf::RepeatedField<double>& stored, double least,
         std::array<double, kSize>& out) {
  if (static_cast<std::size_t>(stored.size()) != kSize) return false;
  std::copy(stored.begin(), stored.end(), out.begin());
  return std::all_of(out.begin(), out.end(), [least](double value) { return value >= least; });
}

void Put(const RecentErrorEvidence::State& state, store::v1::ErrorState::Recent& out) {
  out.set_count(state.count);
  for (const auto& sign : state.wealth) out.mutable_wealth()->Add(sign.begin(), sign.end());
  out.mutable_deviations()->Add(state.deviation.begin(), state.deviation.end());
  out.mutable_squares()->Add(state.squares.begin(), state.squares.end());
}

bool Get(const store::v1::ErrorState::Recent& stored, RecentErrorEvidence::State& out) {
  constexpr std::size_t kRates = RecentErrorEvidence::kRates;
  std::array<double, RecentErrorEvidence::kSigns * kRates> wealth{};
  if (!Get(stored.wealth(), 0, wealth) ||
      !Get(stored.deviations(), std::numeric_limits<double>::lowest(), out.deviation) ||
      !Get(stored.squares(), 0, out.squares)) {
    return false;
  }
  out.count = stored.count();
  for (std::size_t i = 0; i < wealth.size(); ++i) out.wealth[i / kRates][i % kRates] = wealth[i];
  return true;
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
  } else {
    reading.observations_needed = ObservationsNeeded(error, *this);
  }
  if (budget.recent > 0) {
    reading.stretch = WorstStretch(sums, *marks, recent_series, budget.levels, error.limit);
  }
  return reading;
}

ErrorBudget ErrorBudget::OfModel(double alpha, std::size_t class_count) noexcept {
  return Share(alpha, true, class_count);
}

ErrorBudget ErrorBudget::OfGroup(double alpha, std::size_t groups,
                                 std::size_t class_count) noexcept {
  return Share(alpha / static_cast<double>(groups), false, class_count);
}

void ClassMeasure::Add(const Row& row, double limit, Sums& since_start, Sums& sums) noexcept {
  for (std::size_t s = 0; s < budget_.series; ++s) {
    const Event event = EventOf(row.batch, row.index, s);
    since_start.series[s].Add(event.stated, event.happened);
    const std::size_t bin = sums.series[s].Add(event.stated, event.happened);
    if (budget_.recent == 0) continue;
    recent_[s].Add(bin, event.stated - (event.happened ? 1 : 0), limit);
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

std::optional<double> ClassMeasure::Upper(const Sums& sums, std::int64_t count, double limit,
                                          bool recent) const noexcept {
  std::optional<double> upper;
  const auto consider = [&upper](const ErrorInterval& interval) {
    upper = std::max(upper.value_or(0), interval.upper);
  };
  for (std::size_t s = 0; s < budget_.series; ++s) {
    if (const auto interval = Interval(sums, s)) consider(*interval);
    if (!recent) continue;
    if (const auto stretch = Recent(sums, s, count, limit)) consider(stretch->interval);
  }
  return upper;
}

void ClassMeasure::KeepMark(const Sums& sums, std::int64_t count, std::int64_t observation,
                            std::int64_t& /*next*/) {
  if (budget_.recent == 0 || count % kMarkSpacing != 0) return;
  auto marks = std::make_shared<std::vector<ErrorSums>>(*marks_);
  marks->push_back(sums);
  marks->back().first_observation = observation + 1;
  marks->back().start_time.reset();
  const std::int64_t newest = count / kMarkSpacing;
  std::erase_if(*marks, [newest](const ErrorSums& mark) {
    return !KeepsMark(mark.count() / kMarkSpacing, newest);
  });
  marks_ = std::move(marks);
}

void ClassMeasure::SetTime(Time time, std::int64_t /*count*/) {
  // A mark begins with the observation after it.
  if (marks_->empty() || marks_->back().start_time.has_value()) return;
  auto marks = std::make_shared<std::vector<ErrorSums>>(*marks_);
  for (ErrorSums& mark : *marks) {
    if (!mark.start_time.has_value()) mark.start_time = time;
  }
  marks_ = std::move(marks);
}

void ClassMeasure::RestartRecent() noexcept {
  recent_series_.reset();
  recent_ = {};
}

void ClassMeasure::Restart() {
  RestartRecent();
  marks_ = std::make_shared<std::vector<ErrorSums>>();
}

std::shared_ptr<const MeasuredError> ClassMeasure::Snapshot(const Sums& since_start,
                                                            const Sums& sums,
                                                            std::int64_t /*count*/) const {
  auto snapshot = std::make_shared<MeasuredClassError>();
  snapshot->budget = budget_;
  snapshot->since_start = since_start;
  snapshot->sums = sums;
  snapshot->marks = marks_;
  if (budget_.recent > 0) {
    snapshot->recent_series = recent_[1].value() > recent_[0].value() ? 1 : 0;
    const double value = recent_[snapshot->recent_series].value();
    if (value > 0) snapshot->recent_log10_e_value = std::log10(value);
    snapshot->recent_threshold = -std::log10(budget_.recent);
  }
  return snapshot;
}

void ClassMeasure::SaveSums(const Sums& sums, store::v1::ErrorState::Sums& out) const {
  out.set_first_observation(sums.first_observation);
  if (sums.start_time.has_value()) out.set_start_time_us(ToMicroseconds(*sums.start_time));
  for (std::size_t s = 0; s < budget_.series; ++s) PutSums(sums.series[s], *out.add_series());
}

bool ClassMeasure::RestoreSums(const store::v1::ErrorState::Sums& stored, Sums& out) const {
  out.first_observation = stored.first_observation();
  out.start_time.reset();
  if (stored.has_start_time_us()) out.start_time = ToTime(stored.start_time_us());
  bool valid = static_cast<std::size_t>(stored.series_size()) == budget_.series &&
               stored.first_observation() > 0;
  for (std::size_t s = 0; valid && s < budget_.series; ++s) {
    valid = GetSums(stored.series(static_cast<int>(s)), out.series[s]) &&
            out.series[s].Total().count == out.count();
  }
  return valid;
}

void ClassMeasure::Save(store::v1::ErrorState& out) const {
  for (std::size_t s = 0; budget_.recent > 0 && s < budget_.series; ++s) {
    Put(recent_[s].state(), *out.add_recent());
  }
  if (recent_series_.has_value()) out.set_recent_series(static_cast<std::int32_t>(*recent_series_));
  for (const ErrorSums& mark : *marks_) SaveSums(mark, *out.add_marks());
}

absl::Status ClassMeasure::Restore(const store::v1::ErrorState& stored, const Sums& /*sums*/) {
  const auto series = static_cast<int>(budget_.series);
  bool valid = stored.recent_size() == (budget_.recent > 0 ? series : 0) &&
               stored.recent_series() >= 0 && stored.recent_series() < series;
  for (int s = 0; valid && s < stored.recent_size(); ++s) {
    RecentErrorEvidence::State state;
    valid = Get(stored.recent(s), state);
    recent_[static_cast<std::size_t>(s)] = RecentErrorEvidence(state);
  }
  auto marks = std::make_shared<std::vector<ErrorSums>>();
  for (const store::v1::ErrorState::Sums& mark : stored.marks()) {
    valid = valid && RestoreSums(mark, marks->emplace_back());
  }
  if (!valid) return absl::InvalidArgumentError("has a recent error that cannot be");
  if (stored.has_recent_series()) recent_series_ = static_cast<std::size_t>(stored.recent_series());
  marks_ = std::move(marks);
  return absl::OkStatus();
}

std::size_t ClassMeasure::MaxMemory() noexcept {
  return sizeof(ClassErrorWatch) + 2 * kMostMarks * sizeof(ErrorSums);
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
