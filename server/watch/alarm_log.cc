#include "server/watch/alarm_log.h"

#include <algorithm>
#include <utility>

#include "absl/strings/str_cat.h"
#include "server/watch/stored_numbers.h"

namespace calibd::server {
namespace {

void Put(const LimitCrossing& crossing, store::v1::LimitCrossing& out) {
  out.set_recent(crossing.recent);
  out.set_limit(crossing.limit);
  out.set_series(static_cast<std::int32_t>(crossing.series));
  out.set_estimate(crossing.interval.estimate);
  out.set_lower(crossing.interval.lower);
  out.set_upper(crossing.interval.upper);
  out.set_gap(crossing.interval.gap);
  out.set_gap_lower(crossing.interval.gap_lower);
  out.set_gap_upper(crossing.interval.gap_upper);
  out.set_first_observation(crossing.first_observation);
}

LimitCrossing Get(const store::v1::LimitCrossing& stored, std::int64_t observation) {
  return {.observation = observation,
          .recent = stored.recent(),
          .limit = stored.limit(),
          .series = stored.series() == 1 ? 1U : 0U,
          .interval = {.estimate = stored.estimate(),
                       .lower = stored.lower(),
                       .upper = stored.upper(),
                       .gap = stored.gap(),
                       .gap_lower = stored.gap_lower(),
                       .gap_upper = stored.gap_upper()},
          .first_observation = stored.first_observation()};
}

void Put(const Alarm& alarm, store::v1::Alarm& out) {
  out.set_id(alarm.id);
  out.set_kind(static_cast<std::int32_t>(alarm.kind));
  out.set_raise_time_us(ToMicroseconds(alarm.raise_time));
  out.set_observation(alarm.observation);
  out.set_log10_value(alarm.log10_value);
  out.set_threshold(alarm.threshold);
  if (alarm.skce.has_value()) out.set_skce(*alarm.skce);
  if (alarm.skce_lower_bound.has_value()) out.set_skce_lower_bound(*alarm.skce_lower_bound);
  out.set_gap(alarm.gap);
  out.mutable_family_shares()->Add(alarm.family_share.begin(), alarm.family_share.end());
  if (alarm.acknowledge_time.has_value()) {
    out.set_acknowledge_time_us(ToMicroseconds(*alarm.acknowledge_time));
  }
  out.set_note(alarm.note);
  if (alarm.crossing.has_value()) Put(*alarm.crossing, *out.mutable_crossing());
  if (!alarm.group.has_value()) return;
  out.set_group_value(alarm.group->value);
  out.set_overflow_group(alarm.group->overflow);
}

// Returns nothing if the stored alarm is invalid.
std::optional<Alarm> Get(const store::v1::Alarm& stored) {
  if (stored.id() < 1 || stored.kind() < static_cast<int>(Alarm::Kind::kEvidence) ||
      stored.kind() > static_cast<int>(Alarm::Kind::kOverLimit)) {
    return std::nullopt;
  }
  Alarm alarm;
  alarm.id = stored.id();
  alarm.kind = static_cast<Alarm::Kind>(stored.kind());
  alarm.raise_time = ToTime(stored.raise_time_us());
  alarm.observation = stored.observation();
  alarm.log10_value = stored.log10_value();
  alarm.threshold = stored.threshold();
  if (stored.has_skce()) alarm.skce = stored.skce();
  if (stored.has_skce_lower_bound()) alarm.skce_lower_bound = stored.skce_lower_bound();
  alarm.gap = stored.gap();
  std::copy_n(
      stored.family_shares().begin(),
      std::min<std::size_t>(kFamilyCount, static_cast<std::size_t>(stored.family_shares_size())),
      alarm.family_share.begin());
  if (stored.has_acknowledge_time_us()) {
    alarm.acknowledge_time = ToTime(stored.acknowledge_time_us());
  }
  alarm.note = stored.note();
  if (stored.has_crossing()) alarm.crossing = Get(stored.crossing(), stored.observation());
  if (stored.has_group_value()) {
    alarm.group = {.value = stored.group_value(), .overflow = stored.overflow_group()};
  }
  if (alarm.crossing.has_value() != (alarm.kind == Alarm::Kind::kOverLimit)) return std::nullopt;
  return alarm;
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
  const auto oldest = std::find_if(alarms->begin(), alarms->end(), [](const Alarm& one) {
    return one.acknowledge_time.has_value();
  });
  if (alarms->size() > kMostAlarms && oldest != alarms->end()) alarms->erase(oldest);
  alarms_ = std::move(alarms);
}

Alarm OverLimitAlarm(const LimitCrossing& crossing, const GroupId* group, Alarm::Time time) {
  Alarm alarm;
  alarm.kind = Alarm::Kind::kOverLimit;
  alarm.raise_time = time;
  alarm.observation = crossing.observation;
  alarm.gap = crossing.interval.gap;
  alarm.crossing = crossing;
  if (group != nullptr) alarm.group = *group;
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
  for (const Alarm& alarm : *alarms_) Put(alarm, *out.add_alarms());
  out.set_evidence_alarms(raised_[0]);
  out.set_drift_alarms(raised_[1]);
  out.set_over_limit_alarms(raised_[2]);
}

absl::Status AlarmLog::Restore(const store::v1::MonitorState& stored) {
  auto alarms = std::make_shared<std::vector<Alarm>>();
  for (const store::v1::Alarm& alarm : stored.alarms()) {
    std::optional<Alarm> read = Get(alarm);
    if (!read.has_value() || (!alarms->empty() && read->id <= alarms->back().id)) {
      return absl::InvalidArgumentError(
          absl::StrCat("has an alarm ", alarm.id(), " that cannot be"));
    }
    alarms->push_back(*std::move(read));
  }
  alarms_ = std::move(alarms);
  raised_ = {stored.evidence_alarms(), stored.drift_alarms(), stored.over_limit_alarms()};
  return absl::OkStatus();
}

}  // namespace calibd::server
