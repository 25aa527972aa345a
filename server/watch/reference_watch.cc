#include "server/watch/reference_watch.h"

#include <algorithm>

#include "calibd/core/status_macros.h"
#include "server/watch/state_fields.h"

namespace calibd::server {
namespace {

struct StoredReference {
  std::int64_t first_observation = 1;
  std::optional<ReferenceWatch::Time> start_time;
  std::optional<ReferenceWatch::Time> end_time;
  ReferenceChange::State change;
};

void ReferenceFields(StateFields& fields, StoredReference& state) {
  using Stored = store::v1::ReferenceState;
  using Cell = ReferenceChange::Cell;
  ReferenceChange::State& change = state.change;
  fields(Stored::kFirstObservationFieldNumber, state.first_observation);
  fields(Stored::kStartTimeUsFieldNumber, state.start_time);
  fields(Stored::kEndTimeUsFieldNumber, state.end_time);
  fields(Stored::kRowsFieldNumber, change.rows);
  fields(Stored::kBetsFieldNumber, change.bets);
  fields.Column(Stored::kWarmupRowsFieldNumber, change.cells, &Cell::warmup_rows);
  fields.Column(Stored::kStatedErrorsFieldNumber, change.cells, &Cell::stated_errors);
  fields.Column(Stored::kCellRowsFieldNumber, change.cells, &Cell::rows);
  fields.Column(Stored::kCellWrongFieldNumber, change.cells, &Cell::wrong);
  fields.Column(Stored::kReferenceRowsFieldNumber, change.cells, &Cell::reference_rows);
  fields.Column(Stored::kReferenceWrongFieldNumber, change.cells, &Cell::reference_wrong);
  fields.Column(Stored::kWealthFieldNumber, change.wealth);
  fields.Column(Stored::kStartWealthFieldNumber, change.start_wealth);
  fields.Column(Stored::kStartFieldNumber, change.start);
  fields.Column(Stored::kStartWrongFieldNumber, change.start_wrong);
  fields.Column(Stored::kStartExpectedFieldNumber, change.start_expected);
  fields(Stored::kWrongRowsFieldNumber, change.wrong_rows);
  fields(Stored::kExpectedWrongFieldNumber, change.expected_wrong);
  fields(Stored::kChangedAtFieldNumber, change.changed_at);
  fields.Require(state.first_observation >= 1, "has a reference that cannot be");
}

}  // namespace

std::optional<ReferenceFinding> ReferenceSnapshot::Finding() const {
  if (changed_at == 0) return std::nullopt;
  const bool more = reading.share_of_more >= 0.5;
  return ReferenceFinding{
      .more_errors = more,
      .direction_share = more ? reading.share_of_more : 1 - reading.share_of_more,
      .since_observation = first_observation + reading.rows_before,
      .observations = reading.rows_since,
      .wrong = static_cast<std::int64_t>(reading.wrong_since),
      .expected_wrong = reading.expected_since};
}

void ReferenceWatch::SetTime(Time time) noexcept {
  const std::int64_t rows = change_.state().rows;
  if (!start_time_.has_value() && rows > 0) start_time_ = time;
  if (!end_time_.has_value() && rows >= change_.settings().reference_rows) end_time_ = time;
}

bool ReferenceWatch::TakeChange() noexcept {
  const bool takes = change_.changed() && !is_taken_;
  is_taken_ = change_.changed();
  return takes;
}

ReferenceSnapshot ReferenceWatch::Snapshot() const noexcept {
  const ReferenceChange::Settings& settings = change_.settings();
  const ReferenceChange::State& state = change_.state();
  return {.first_observation = settings.first_observation,
          .reference_rows = settings.reference_rows,
          .rows = state.rows,
          .start_time = start_time_,
          .end_time = end_time_,
          .reading = change_.Read(),
          .changed_at = change_.changed() ? settings.first_observation - 1 + state.changed_at : 0};
}

void ReferenceWatch::Save(store::v1::ReferenceState& out) const {
  SaveFields(StoredReference{.first_observation = change_.settings().first_observation,
                             .start_time = start_time_,
                             .end_time = end_time_,
                             .change = change_.state()},
             out, ReferenceFields);
}

absl::Status ReferenceWatch::Restore(const store::v1::ReferenceState& stored) {
  StoredReference state;
  CALIBD_RETURN_IF_ERROR(RestoreFields(stored, state, ReferenceFields));
  ReferenceChange::Settings settings = change_.settings();
  settings.first_observation = state.first_observation;
  if (!ReferenceChange::Fits(settings, state.change)) {
    return absl::InvalidArgumentError("has a reference that cannot be");
  }
  change_ = ReferenceChange(settings, state.change);
  start_time_ = state.start_time;
  end_time_ = state.end_time;
  // Its alarm is saved with it.
  is_taken_ = change_.changed();
  return absl::OkStatus();
}

}  // namespace calibd::server
