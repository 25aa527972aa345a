#include "server/watch/limit.h"

#include <algorithm>
#include <bit>
#include <cmath>
#include <utility>

#include "calibd/store/v1/store.pb.h"

namespace calibd::server {
namespace {

void IntervalFields(StateFields& fields, ErrorInterval& interval) {
  using Stored = store::v1::ErrorState::Interval;
  fields(Stored::kEstimateFieldNumber, interval.estimate);
  fields(Stored::kLowerFieldNumber, interval.lower);
  fields(Stored::kUpperFieldNumber, interval.upper);
  fields(Stored::kGapFieldNumber, interval.gap);
  fields(Stored::kGapLowerFieldNumber, interval.gap_lower);
  fields(Stored::kGapUpperFieldNumber, interval.gap_upper);
  fields(Stored::kStatedFieldNumber, interval.stated);
}

}  // namespace

bool KeepsMark(std::int64_t index, std::int64_t newest) noexcept {
  // The number of newest marks that are all kept.
  constexpr std::int64_t kNewestMarks = 8;
  const std::int64_t age = newest - index;
  if (age < kNewestMarks) return true;
  return index % static_cast<std::int64_t>(std::bit_floor(static_cast<std::uint64_t>(age)) / 2) ==
         0;
}

void DeviationFields(StateFields& fields, EventDeviations& deviations) {
  using Stored = store::v1::ErrorState::DeviationState;
  using Sums = DeviationBlocks::Sums;
  DeviationBlocks::State state = deviations.blocks.state();
  fields(Stored::kFirstObservationFieldNumber, deviations.first_observation);
  fields(Stored::kRowsFieldNumber, state.rows);
  fields(Stored::kBlockRowsFieldNumber, state.block_rows);
  fields(Stored::kDeviationFieldNumber, state.total.deviation);
  fields(Stored::kSquaresFieldNumber, state.total.squares);
  const std::int64_t smallest = DeviationBlocks::kSmallestBlock;
  fields.Require(
      state.block_rows >= smallest && state.block_rows % smallest == 0 &&
          std::has_single_bit(static_cast<std::uint64_t>(state.block_rows)) &&
          state.rows / state.block_rows < static_cast<std::int64_t>(DeviationBlocks::kMaxBlocks) &&
          (deviations.first_observation > 0) == (state.rows > 0),
      "has deviations of the error that cannot be");
  if (!fields.ok()) return;
  if (fields.restoring()) {
    state.ends.resize(static_cast<std::size_t>(state.rows / state.block_rows));
  }
  fields.Column(Stored::kEndDeviationsFieldNumber, state.ends, &Sums::deviation);
  fields.Column(Stored::kEndSquaresFieldNumber, state.ends, &Sums::squares);
  fields.Require(state.total.squares >= 0 && std::ranges::is_sorted(state.ends, {}, &Sums::squares),
                 "has deviations of the error that cannot be");
  deviations.blocks = DeviationBlocks(std::move(state));
}

void RecoveryFields(StateFields& fields, ErrorStretch& stretch) {
  using Stored = store::v1::ErrorState::Recovery;
  fields(Stored::kFirstObservationFieldNumber, stretch.first_observation);
  fields(Stored::kStartTimeUsFieldNumber, stretch.start_time);
  fields(Stored::kObservationsFieldNumber, stretch.observations);
  std::vector<ErrorInterval> intervals;
  for (const std::optional<ErrorInterval>& interval : stretch.intervals) {
    if (interval.has_value()) intervals.push_back(*interval);
  }
  fields.Each(Stored::kIntervalsFieldNumber, intervals, IntervalFields);
  fields.Require(stretch.first_observation >= 1 && stretch.observations >= 1 &&
                     !intervals.empty() && intervals.size() <= stretch.intervals.size(),
                 "has a recovery of the error that cannot be");
  if (fields.ok()) std::ranges::copy(intervals, stretch.intervals.begin());
}

std::vector<EventChange> FindChanges(const std::vector<EventDeviations>& deviations) {
  std::vector<DeviationBlocks> events;
  events.reserve(deviations.size());
  for (const EventDeviations& event : deviations) events.push_back(event.blocks);
  return calibd::FindChanges(events);
}

namespace {

// Whether this row is among those before the named change, whose error was not shown to be over the
// limit.
bool IsBeforeChange(const ErrorSnapshot& error, std::int64_t row) {
  const EventChange* const named = error.NamedChange();
  if (named == nullptr) return false;
  const DatedChange& change = named->change;
  const std::int64_t first = error.deviations[named->event].first_observation;
  const bool was_over = std::abs(change.before.mean) - change.before.radius > error.error_limit;
  return !was_over && row >= first + change.before_from && row < first + change.from;
}

}  // namespace

std::optional<std::int64_t> ErrorSnapshot::OverAgainSince() const {
  if (!over || Read().recovered) return std::nullopt;
  std::call_once(memo->over_again_once, [this] {
    const std::optional<std::int64_t> since = measured->OverAgainSince(*this);
    if (since.has_value() && !IsBeforeChange(*this, *since)) memo->over_again_since = since;
  });
  return memo->over_again_since;
}

const EventChange* ErrorSnapshot::NamedChange() const {
  const std::vector<EventChange>& changes = Changes();
  const auto largest = std::ranges::max_element(changes, {}, [](const EventChange& one) {
    return std::abs(one.change.after.mean - one.change.before.mean);
  });
  return largest == changes.end() ? nullptr : &*largest;
}

std::int64_t ErrorSnapshot::ChangedUntil() const {
  const EventChange* const named = NamedChange();
  return named == nullptr ? 0 : deviations[named->event].first_observation + named->change.to - 1;
}

v1::CalibrationError::Status ToProto(LimitStatus status) noexcept {
  switch (status) {
    case LimitStatus::kOverLimit:
      return v1::CalibrationError::OVER_LIMIT;
    case LimitStatus::kWithinLimit:
      return v1::CalibrationError::WITHIN_LIMIT;
    case LimitStatus::kUndecided:
      break;
  }
  return v1::CalibrationError::UNDECIDED;
}

}  // namespace calibd::server
