#include "server/watch/forecast_monitor.h"

#include <algorithm>
#include <numbers>
#include <utility>

namespace calibd::server {
namespace {

// The parts of a reading that do not depend on what a model predicts.
EvidenceReading ToEvidenceReading(const ForecastEvidenceReading& forecasts) {
  static_assert(kForecastFamilyCount <= kFamilyCount);
  EvidenceReading reading;
  reading.count = forecasts.count;
  reading.evidence.log10_e_value = forecasts.evidence.log10_e_value;
  std::ranges::copy(forecasts.evidence.family_log10_e_value,
                    reading.evidence.family_log10_e_value.begin());
  std::ranges::copy(forecasts.evidence.family_share, reading.evidence.family_share.begin());
  reading.maximum = forecasts.maximum;
  reading.drift = forecasts.drift;
  reading.evidence_reached_at = forecasts.evidence_reached_at;
  reading.drift_reached_at = forecasts.drift_reached_at;
  return reading;
}

}  // namespace

ForecastMonitor::ForecastMonitor(Monitoring monitoring, std::shared_ptr<const ForecastCells> cells,
                                 std::uint64_t seed, std::optional<ThresholdDecision> decision)
    : monitoring_(std::move(monitoring)),
      seed_(seed),
      cells_(std::move(cells)),
      decision_(decision),
      error_(NewError(1)) {}

EvidenceMarks ForecastMonitor::Marks() const noexcept {
  return {
      .log_e = EvidenceThreshold(monitoring_.significance_level) * std::numbers::ln10,
      .log_shiryaev_roberts = DriftThreshold(monitoring_.average_run_length) * std::numbers::ln10};
}

CoverageWatch ForecastMonitor::NewError(std::int64_t first_observation) const {
  return {CoverageWatch::Of::kModel,      cells_,
          monitoring_.significance_level, monitoring_.error_limit,
          monitoring_.min_observations,   first_observation};
}

CoverageWatch ForecastMonitor::NewGroupError(std::int64_t first_observation) const {
  // One more than max_groups, for the overflow group.
  const auto groups = static_cast<double>(monitoring_.max_groups + 1);
  return {CoverageWatch::Of::kGroup,
          cells_,
          monitoring_.significance_level / groups,
          monitoring_.error_limit,
          monitoring_.min_group_observations,
          first_observation};
}

void ForecastMonitor::SetCells(const ForecastStrata& strata) {
  cells_ = *ForecastCells::Create(cells_->kind(), strata, seed_, monitoring_.tolerance);
}

void ForecastMonitor::BeginDiscrepancy() {
  discrepancy_.reset();
  if (!kernel_.has_value()) return;
  absl::StatusOr<ForecastDiscrepancy> discrepancy =
      ForecastDiscrepancy::Create(cells_->kind(), *kernel_);
  if (discrepancy.ok()) discrepancy_ = *std::move(discrepancy);
}

void ForecastMonitor::KeepWarmup(const GroupValues& groups, std::size_t rows) {
  for (std::size_t i = 0; !monitoring_.group_tag.empty() && i < rows; ++i) {
    warmup_groups_.push_back(groups[i]);
  }
}

void ForecastMonitor::Begin(const NumberForecastBatch& warmup, RunningMoments& blocks) {
  SetCells(StrataOfForecasts(cells_->kind(), warmup.forecasts));
  std::vector<ForecastRow> rows(warmup.size());
  cells_->Describe(warmup, 1, rows);
  watch_.emplace(NewWatch(1));
  watch_->evidence.Add(rows);
  const absl::StatusOr<DiscrepancyKernel> kernel =
      ChooseDiscrepancyKernel(cells_->kind(), warmup.forecasts);
  if (kernel.ok()) kernel_ = *kernel;
  BeginDiscrepancy();
  AddToSums(warmup, blocks);
  AddToGroups(rows, GroupValues(warmup_groups_), 0);
  warmup_groups_ = {};
}

void ForecastMonitor::Add(const NumberForecastBatch& batch, std::span<const ForecastRow> rows,
                          const GroupValues& groups, std::int64_t observations,
                          RunningMoments& blocks) {
  for (std::size_t i = 0; i < rows.size(); ++i) {
    error_.Add(rows[i], observations + static_cast<std::int64_t>(i) + 1);
  }
  if (!watch_.has_value()) return;
  watch_->evidence.Add(rows);
  AddToSums(batch, blocks);
  AddToGroups(rows, groups, observations);
}

void ForecastMonitor::AddToSums(const NumberForecastBatch& batch, RunningMoments& blocks) {
  if (discrepancy_.has_value()) discrepancy_->Add(batch, &blocks);
  if (!decision_.has_value()) return;
  AddDecisions(WithKind(cells_->kind(), batch), *decision_, decisions_);
}

void ForecastMonitor::AddToGroups(std::span<const ForecastRow> rows, const GroupValues& groups,
                                  std::int64_t observations) {
  if (monitoring_.group_tag.empty()) return;
  for (std::size_t first = 0; first < rows.size();) {
    // The rows of one group that follow one another.
    std::size_t end = first + 1;
    while (end < rows.size() && groups[end] == groups[first]) ++end;
    const std::int64_t before = observations + static_cast<std::int64_t>(first);
    Group& group = groups_[GroupOf(groups[first], before)];
    group.snapshot = nullptr;
    group.watch.evidence.Add(rows.subspan(first, end - first));
    for (std::size_t i = first; i < end; ++i) {
      group.error.Add(rows[i], observations + static_cast<std::int64_t>(i) + 1);
    }
    first = end;
  }
}

std::size_t ForecastMonitor::GroupOf(const std::string& value, std::int64_t observations) {
  const auto place = [this](auto group) {
    return static_cast<std::size_t>(group - groups_.begin());
  };
  const auto own = std::ranges::find_if(groups_, [&value](const Group& group) {
    return !group.id.overflow && group.id.value == value;
  });
  if (own != groups_.end()) return place(own);
  const auto overflow =
      std::ranges::find_if(groups_, [](const Group& group) { return group.id.overflow; });
  if (overflow != groups_.end()) return place(overflow);
  const bool is_full = groups_.size() >= monitoring_.max_groups;
  groups_.push_back({.id = {.value = is_full ? std::string() : value, .overflow = is_full},
                     .watch = NewWatch(observations + 1),
                     .error = NewGroupError(observations + 1),
                     .snapshot = nullptr});
  return groups_.size() - 1;
}

void ForecastMonitor::Decide(Alarm::Time time, std::int64_t observations) {
  last_counted_time_ = time;
  if (watch_.has_value() && watch_->evidence.count() >= monitoring_.min_observations) {
    const ForecastEvidenceReading reading = watch_->evidence.Read();
    const auto decide = [&](Alarm::Kind kind, const RunningMaximum& maximum, double threshold,
                            std::int64_t reached_at) {
      Alarm alarm;
      alarm.kind = kind;
      alarm.raise_time = time;
      alarm.observation = reached_at > 0 ? watch_->first_observation - 1 +
                                               std::max(reached_at, monitoring_.min_observations)
                                         : observations;
      alarm.log10_value = maximum.log_value / std::numbers::ln10;
      alarm.threshold = threshold;
      if (alarm.log10_value < threshold || FindActiveIn(*alarms_.alarms(), kind) != nullptr) return;
      if (const auto coverage = CoverageOf(*cells_, reading.counts, {})) {
        alarm.gap = IntervalOf(*coverage).gap;
      }
      alarm.family_share = ToEvidenceReading(reading).evidence.family_share;
      alarms_.Raise(std::move(alarm));
    };
    decide(Alarm::Kind::kEvidence, reading.maximum,
           EvidenceThreshold(monitoring_.significance_level), reading.evidence_reached_at);
    decide(Alarm::Kind::kDrift, reading.drift.maximum,
           DriftThreshold(monitoring_.average_run_length), reading.drift_reached_at);
  }
  RaiseOverLimit(time);
}

void ForecastMonitor::RaiseOverLimit(Alarm::Time time) {
  const auto raise = [&](CoverageWatch& error, const GroupId* group) {
    error.SetTime(time);
    const std::optional<LimitCrossing> crossing = error.TakeCrossing();
    if (crossing.has_value()) alarms_.Raise(OverLimitAlarm(*crossing, group, time));
  };
  raise(error_, nullptr);
  for (Group& group : groups_) raise(group.error, &group.id);
}

void ForecastMonitor::Acknowledge(std::int64_t alarm_id, const std::string& note, Alarm::Time time,
                                  std::int64_t observations) {
  const std::optional<Alarm> alarm = alarms_.Acknowledge(alarm_id, note, time);
  if (!alarm.has_value()) return;
  if (alarm->kind != Alarm::Kind::kOverLimit) {
    return Restart(
        alarm->kind == Alarm::Kind::kEvidence ? MonitorRestart::kEvidence : MonitorRestart::kDrift,
        observations);
  }
  if (!alarm->group.has_value()) error_.Acknowledge(observations);
  for (Group& group : groups_) {
    if (alarm->group != group.id) continue;
    group.error.Acknowledge(observations);
    group.snapshot = nullptr;
  }
}

void ForecastMonitor::Update(const Monitoring& monitoring, Alarm::Time time,
                             std::int64_t observations) {
  const Monitoring former = std::exchange(monitoring_, monitoring);
  if (watch_.has_value() && former.tolerance != monitoring_.tolerance) SetCells(cells_->strata());
  Restart(RestartOf(former, monitoring_), observations);
  if (former.significance_level != monitoring_.significance_level) {
    error_.Restart(NewError(observations + 1));
    for (Group& group : groups_) group.error.Restart(NewGroupError(observations + 1));
  } else if (former.error_limit != monitoring_.error_limit) {
    error_.SetLimit(monitoring_.error_limit, observations);
    for (Group& group : groups_) group.error.SetLimit(monitoring_.error_limit, observations);
  }
  RaiseOverLimit(time);
  for (Group& group : groups_) group.snapshot = nullptr;
}

void ForecastMonitor::Restart(MonitorRestart restart, std::int64_t observations) {
  if (!watch_.has_value() || restart == MonitorRestart::kNothing) return;
  const auto begin_anew = [&](Watch& watch) {
    if (restart == MonitorRestart::kEvidence) {
      watch = NewWatch(observations + 1);
    } else {
      watch.evidence.RestartDrift(Marks().log_shiryaev_roberts);
    }
  };
  begin_anew(*watch_);
  if (restart == MonitorRestart::kEvidence) {
    BeginDiscrepancy();
    decisions_ = {};
  }
  for (Group& group : groups_) {
    begin_anew(group.watch);
    group.snapshot = nullptr;
  }
}

std::optional<EvidenceReading> ForecastMonitor::Read() const {
  if (!watch_.has_value()) return std::nullopt;
  return ToEvidenceReading(watch_->evidence.Read());
}

WatchSnapshot ForecastMonitor::SnapshotOf(const Watch& watch) const {
  auto forecast = std::make_shared<ForecastWatchSnapshot>(
      ForecastWatchSnapshot{.cells = cells_, .reading = watch.evidence.Read()});
  const bool is_model = &watch == &*watch_;
  if (decision_.has_value() && is_model) {
    const std::optional<DecisionReading> reading =
        ReadDecisions(*decision_, decisions_, monitoring_.significance_level);
    if (reading.has_value()) forecast->decision = {.declared = *decision_, .reading = *reading};
  }
  if (discrepancy_.has_value() && is_model) {
    forecast->discrepancy = {.kernel = *kernel_,
                             .unbiased = discrepancy_->Unbiased(),
                             .interval = discrepancy_->Interval(monitoring_.significance_level),
                             .blocks = discrepancy_->blocks().moments()};
  }
  WatchSnapshot snapshot;
  snapshot.first_observation = watch.first_observation;
  snapshot.reading = ToEvidenceReading(forecast->reading);
  snapshot.forecast = std::move(forecast);
  return snapshot;
}

MonitorSnapshot ForecastMonitor::Snapshot() {
  MonitorSnapshot snapshot;
  if (watch_.has_value()) snapshot.watch = SnapshotOf(*watch_);
  snapshot.error = error_.Snapshot();
  snapshot.alarms = alarms_.alarms();
  snapshot.last_counted_time = last_counted_time_;
  snapshot.raised = alarms_.raised();
  for (Group& group : groups_) {
    if (group.snapshot == nullptr) {
      group.snapshot = std::make_shared<GroupSnapshot>(
          GroupSnapshot{group.id, SnapshotOf(group.watch), group.error.Snapshot()});
    }
    snapshot.groups.push_back(group.snapshot);
  }
  return snapshot;
}

std::size_t ForecastMonitor::MaxMemory(const Monitoring& monitoring,
                                       const NumberForecastKind& kind) noexcept {
  // One watch for the model, one per group, and one for the overflow group.
  const std::size_t watches = monitoring.group_tag.empty() ? 1 : monitoring.max_groups + 2;
  const auto* const quantiles = std::get_if<QuantileForecasts>(&kind);
  const auto* const samples = std::get_if<SampleForecasts>(&kind);
  constexpr std::size_t kMostCells = 64;
  constexpr std::size_t kNormalCells = 24;
  const std::size_t cells = quantiles != nullptr ? quantiles->levels.size() + 1
                            : samples != nullptr ? kMostCells
                                                 : kNormalCells;
  // A snapshot has counts of its own.
  const std::size_t counts = kStratumKinds * kForecastStrata * cells * sizeof(std::int64_t);
  return watches *
             (ForecastEvidence::MaxMemory(cells) + 2 * (counts + sizeof(ForecastWatchSnapshot))) +
         CoverageWatch::MaxMemory(CoverageWatch::Of::kModel, cells) +
         (watches - 1) * CoverageWatch::MaxMemory(CoverageWatch::Of::kGroup, cells) +
         2 * ForecastCells::MaxMemory() + ForecastDiscrepancy::MaxMemory(kind);
}

}  // namespace calibd::server
