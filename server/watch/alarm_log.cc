#include "server/watch/alarm_log.h"

#include <algorithm>
#include <cmath>
#include <functional>
#include <utility>

#include "absl/strings/str_cat.h"
#include "calibd/core/status_macros.h"
#include "server/watch/state_fields.h"

namespace calibd::server {
namespace {

void CrossingFields(StateFields& fields, LimitCrossing& crossing) {
  using Stored = store::v1::LimitCrossing;
  fields(Stored::kRecentFieldNumber, crossing.recent);
  fields(Stored::kLimitFieldNumber, crossing.limit);
  fields(Stored::kSeriesFieldNumber, crossing.series);
  // The upper end of an interval is never 0.
  ErrorInterval interval =
      crossing.interval.value_or(ErrorInterval{.upper = 0, .gap_lower = 0, .gap_upper = 0});
  fields(Stored::kEstimateFieldNumber, interval.estimate);
  fields(Stored::kLowerFieldNumber, interval.lower);
  fields(Stored::kUpperFieldNumber, interval.upper);
  fields(Stored::kGapFieldNumber, interval.gap);
  fields(Stored::kGapLowerFieldNumber, interval.gap_lower);
  fields(Stored::kGapUpperFieldNumber, interval.gap_upper);
  fields(Stored::kStatedFieldNumber, interval.stated);
  if (fields.restoring() && interval.upper > 0) crossing.interval = interval;
  fields(Stored::kFirstObservationFieldNumber, crossing.first_observation);
  if (fields.restoring() && crossing.series > 1) crossing.series = 0;
}

void FindingFields(StateFields& fields, ReferenceFinding& finding) {
  using Stored = store::v1::ReferenceFinding;
  fields(Stored::kMoreErrorsFieldNumber, finding.more_errors);
  fields(Stored::kDirectionShareFieldNumber, finding.direction_share);
  fields(Stored::kSinceObservationFieldNumber, finding.since_observation);
  fields(Stored::kObservationsFieldNumber, finding.observations);
  fields(Stored::kWrongFieldNumber, finding.wrong);
  fields(Stored::kExpectedWrongFieldNumber, finding.expected_wrong);
}

void AlarmFields(StateFields& fields, Alarm& alarm) {
  using Stored = store::v1::Alarm;
  fields(Stored::kIdFieldNumber, alarm.id);
  auto kind = static_cast<std::int32_t>(alarm.kind);
  fields(Stored::kKindFieldNumber, kind);
  fields(Stored::kRaiseTimeUsFieldNumber, alarm.raise_time);
  fields(Stored::kObservationFieldNumber, alarm.observation);
  fields(Stored::kLog10ValueFieldNumber, alarm.log10_value);
  fields(Stored::kThresholdFieldNumber, alarm.threshold);
  fields(Stored::kSkceFieldNumber, alarm.skce);
  fields(Stored::kSkceLowerBoundFieldNumber, alarm.skce_lower_bound);
  fields(Stored::kGapFieldNumber, alarm.gap);
  // A family that another version had or will have is left out or has the share 0.
  std::vector<double> shares(alarm.family_share.begin(), alarm.family_share.end());
  fields(Stored::kFamilySharesFieldNumber, shares);
  shares.resize(kFamilyCount);
  std::ranges::copy(shares, alarm.family_share.begin());
  fields(Stored::kAcknowledgeTimeUsFieldNumber, alarm.acknowledge_time);
  fields(Stored::kNoteFieldNumber, alarm.note);
  fields(Stored::kLabelFieldNumber, alarm.label);
  fields(Stored::kCrossingFieldNumber, alarm.crossing, CrossingFields);
  if (alarm.crossing.has_value()) alarm.crossing->observation = alarm.observation;
  fields(Stored::kFindingFieldNumber, alarm.finding, FindingFields);
  std::optional<std::string> group;
  if (alarm.group.has_value()) group = alarm.group->value;
  fields(Stored::kGroupValueFieldNumber, group);
  if (group.has_value()) {
    if (!alarm.group.has_value()) alarm.group = {.value = *std::move(group), .overflow = false};
    fields(Stored::kOverflowGroupFieldNumber, alarm.group->overflow);
  }

  const auto has_kind = [kind](Alarm::Kind one) { return kind == static_cast<std::int32_t>(one); };
  const bool fits = alarm.id >= 1 && kind >= static_cast<std::int32_t>(Alarm::Kind::kEvidence) &&
                    kind <= static_cast<std::int32_t>(Alarm::Kind::kChanged) &&
                    alarm.crossing.has_value() == has_kind(Alarm::Kind::kOverLimit) &&
                    alarm.finding.has_value() == has_kind(Alarm::Kind::kChanged);
  fields.Require(fits, [&] { return absl::StrCat("has an alarm ", alarm.id, " that cannot be"); });
  if (fits) alarm.kind = static_cast<Alarm::Kind>(kind);
}

struct StoredAlarms {
  std::vector<Alarm> alarms;
  Alarm::Counts raised{};
};

void AlarmsFields(StateFields& fields, StoredAlarms& state) {
  using Stored = store::v1::MonitorState;
  fields.Each(Stored::kAlarmsFieldNumber, state.alarms, AlarmFields);
  fields(Stored::kEvidenceAlarmsFieldNumber, state.raised[0]);
  fields(Stored::kDriftAlarmsFieldNumber, state.raised[1]);
  fields(Stored::kOverLimitAlarmsFieldNumber, state.raised[2]);
  fields(Stored::kChangedAlarmsFieldNumber, state.raised[3]);
  const auto unordered =
      std::ranges::adjacent_find(state.alarms, std::greater_equal<>(), &Alarm::id);
  fields.Require(unordered == state.alarms.end(), [&] {
    return absl::StrCat("has alarms after ", unordered->id, " that cannot be");
  });
}

}  // namespace

const Alarm* FindActiveIn(const std::vector<Alarm>& alarms, Alarm::Kind kind) noexcept {
  const auto found = std::find_if(alarms.begin(), alarms.end(), [kind](const Alarm& alarm) {
    return alarm.kind == kind && !alarm.acknowledge_time.has_value();
  });
  return found == alarms.end() ? nullptr : &*found;
}

void AlarmLog::Raise(Alarm alarm) {
  alarm.id = alarms_->empty() ? 1 : alarms_->back().id + 1;
  ++raised_[static_cast<std::size_t>(alarm.kind) - 1];
  auto alarms = std::make_shared<std::vector<Alarm>>(*alarms_);
  alarms->push_back(std::move(alarm));
  // Active alarms stay, so that there may have been more than kMostAlarms.
  auto excess = static_cast<std::int64_t>(alarms->size()) - std::int64_t{kMostAlarms};
  std::erase_if(*alarms, [&excess](const Alarm& one) {
    return one.acknowledge_time.has_value() && excess-- > 0;
  });
  alarms_ = std::move(alarms);
}

Alarm OverLimitAlarm(const LimitCrossing& crossing, const GroupId* group, Alarm::Time time) {
  Alarm alarm;
  alarm.kind = Alarm::Kind::kOverLimit;
  alarm.raise_time = time;
  alarm.observation = crossing.observation;
  if (crossing.interval.has_value()) alarm.gap = crossing.interval->gap;
  alarm.crossing = crossing;
  if (group != nullptr) alarm.group = *group;
  return alarm;
}

Alarm ChangedAlarm(const ReferenceSnapshot& reference, double threshold, Alarm::Time time) {
  Alarm alarm;
  alarm.kind = Alarm::Kind::kChanged;
  alarm.raise_time = time;
  alarm.observation = reference.changed_at;
  alarm.log10_value = std::log10(reference.reading.e_value);
  alarm.threshold = threshold;
  alarm.finding = reference.Finding();
  return alarm;
}

std::optional<Alarm> AlarmLog::Acknowledge(std::int64_t alarm_id, const std::string& note,
                                           Alarm::Time time) {
  auto alarms = std::make_shared<std::vector<Alarm>>(*alarms_);
  const auto alarm = std::find_if(alarms->begin(), alarms->end(),
                                  [alarm_id](const Alarm& one) { return one.id == alarm_id; });
  if (alarm == alarms->end() || alarm->acknowledge_time.has_value()) return std::nullopt;
  alarm->acknowledge_time = time;
  alarm->note = note;
  alarms_ = alarms;
  return *alarm;
}

void AlarmLog::Save(store::v1::MonitorState& out) const {
  SaveFields(StoredAlarms{.alarms = *alarms_, .raised = raised_}, out, AlarmsFields);
}

absl::Status AlarmLog::Restore(const store::v1::MonitorState& stored) {
  StoredAlarms state;
  CALIBD_RETURN_IF_ERROR(RestoreFields(stored, state, AlarmsFields));
  alarms_ = std::make_shared<std::vector<Alarm>>(std::move(state.alarms));
  raised_ = state.raised;
  return absl::OkStatus();
}

}  // namespace calibd::server
