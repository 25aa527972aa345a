#include "server/watch/model_monitor.h"

#include <algorithm>
#include <cmath>
#include <numbers>
#include <span>
#include <utility>

#include "server/model/model_update.h"
#include "server/watch/effect_size.h"

namespace calibd::server {
namespace {

// The maximum of the e-value includes the evidence against classes and groups after this many
// observations, counted from the first one of the watch: an alarm must not depend on where rows of
// the log end.
constexpr std::int64_t kConsiderPeriod = 64;

// An observation after which evidence is considered: the last one of a period, or of a row of the
// log.
struct Place {
  std::size_t stop = 0;
  bool ends_period = false;
  // Index in row_ends.
  std::optional<std::size_t> row;
};

// Calls add with the rows before each of these places, and then at_place.
template <typename Add, typename AtPlace>
void VisitPlaces(const ModelMonitor::Addition& addition, const Add& add, const AtPlace& at_place) {
  const std::span<const ModelMonitor::RowEnd> ends = addition.row_ends;
  std::int64_t count = addition.count;
  std::size_t stop = 0;
  std::size_t row = 0;
  for (std::size_t first = 0; first < addition.batch.size();) {
    const auto left = static_cast<std::size_t>(kConsiderPeriod - count % kConsiderPeriod);
    std::size_t rows = std::min(addition.batch.size() - first, left);
    if (row < ends.size()) rows = std::min(rows, ends[row].end - first);
    add(first, rows);
    first += rows;
    count += static_cast<std::int64_t>(rows);
    Place place{.stop = stop, .ends_period = count % kConsiderPeriod == 0, .row = std::nullopt};
    if (row < ends.size() && ends[row].end == first) place.row = row++;
    if (!place.ends_period && !place.row.has_value()) continue;
    at_place(place);
    ++stop;
  }
}

}  // namespace

const Alarm* MonitorSnapshot::FindAlarm(std::int64_t id) const noexcept {
  const auto found = std::find_if(alarms->begin(), alarms->end(),
                                  [id](const Alarm& alarm) { return alarm.id == id; });
  return found == alarms->end() ? nullptr : &*found;
}

const Alarm* MonitorSnapshot::FindActive(Alarm::Kind kind) const noexcept {
  return FindActiveIn(*alarms, kind);
}

ModelMonitor::ModelMonitor(Monitoring monitoring, std::size_t class_count, std::size_t window)
    : monitoring_(std::move(monitoring)),
      class_count_(class_count),
      screen_(window),
      error_(NewError(1)) {}

double EvidenceThreshold(double significance_level) noexcept {
  return -std::log10(significance_level);
}

EvidenceMarks ModelMonitor::Marks() const noexcept {
  return {
      .log_e = EvidenceThreshold(monitoring_.significance_level) * std::numbers::ln10,
      .log_shiryaev_roberts = DriftThreshold(monitoring_.average_run_length) * std::numbers::ln10};
}

std::unique_ptr<EvidenceWatch> ModelMonitor::NewWatch(std::shared_ptr<const FourierBasis> basis,
                                                      std::int64_t first_observation) const {
  return std::make_unique<EvidenceWatch>(std::move(basis), monitoring_.tolerance, Marks(),
                                         first_observation);
}

std::unique_ptr<EvidenceWatch> ModelMonitor::Prepare(const RunningKernel& kernel,
                                                     std::int64_t first_observation) const {
  absl::StatusOr<std::shared_ptr<const FourierBasis>> basis =
      FourierBasis::Create(kernel, class_count_);
  if (!basis.ok()) return nullptr;
  return NewWatch(*std::move(basis), first_observation);
}

void ModelMonitor::KeepWarmup(const GroupValues& groups, std::size_t rows) {
  for (std::size_t i = 0; !monitoring_.group_tag.empty() && i < rows; ++i) {
    warmup_groups_.push_back(groups[i]);
  }
}

void ModelMonitor::Begin(std::unique_ptr<EvidenceWatch> watch, const PredictionBatch& warmup) {
  watch_ = std::move(watch);
  Add(warmup, GroupValues(warmup_groups_));
  warmup_groups_ = {};
}

std::int64_t ModelMonitor::Watched() const {
  return watch_->first_observation() - 1 + watch_->count();
}

std::size_t ModelMonitor::GroupOf(const std::string& value, std::int64_t observations) {
  const auto place = [this](auto group) {
    return static_cast<std::size_t>(group - groups_.begin());
  };
  const auto own = std::find_if(groups_.begin(), groups_.end(), [&value](const Group& group) {
    return !group.id.overflow && group.id.value == value;
  });
  if (own != groups_.end()) return place(own);
  const auto overflow = std::find_if(groups_.begin(), groups_.end(),
                                     [](const Group& group) { return group.id.overflow; });
  if (overflow != groups_.end()) return place(overflow);
  const bool is_full = groups_.size() >= monitoring_.max_groups;
  groups_.push_back({.id = {.value = is_full ? std::string() : value, .overflow = is_full},
                     .watch = NewWatch(watch_->basis(), observations + 1),
                     .error = NewGroupError(observations + 1),
                     .snapshot = nullptr});
  return groups_.size() - 1;
}

ErrorWatch ModelMonitor::NewError(std::int64_t first_observation) const {
  return {ErrorBudget::OfModel(monitoring_.significance_level, class_count_),
          monitoring_.error_limit, monitoring_.min_observations, first_observation};
}

ErrorWatch ModelMonitor::NewGroupError(std::int64_t first_observation) const {
  // One more than max_groups, for the overflow group.
  return {ErrorBudget::OfGroup(monitoring_.significance_level, monitoring_.max_groups + 1,
                               class_count_),
          monitoring_.error_limit, monitoring_.min_group_observations, first_observation};
}

void ModelMonitor::Measure(const PredictionBatch& batch, std::int64_t observations,
                           Addition& addition) {
  const std::span<const RowEnd> ends = addition.row_ends;
  std::size_t row = 0;
  for (std::size_t i = 0; i < batch.size(); ++i) {
    error_.AddRow(batch, i, ++observations);
    if (row == ends.size() || i + 1 < ends[row].end) continue;
    std::optional<Alarm> alarm = TakeOverLimit(error_, nullptr, ends[row].time);
    if (alarm.has_value()) addition.limit_alarms.push_back({row, *std::move(alarm)});
    ++row;
  }
}

void ModelMonitor::Add(const PredictionBatch& batch, const GroupValues& groups) {
  Addition addition;
  BeginAdd(batch, groups, addition);
  AddStatistics(addition);
  AddEvidence(/*observations=*/0, nullptr, addition);
}

void ModelMonitor::BeginAdd(const PredictionBatch& batch, const GroupValues& groups,
                            Addition& addition) {
  if (watch_ == nullptr) return;
  addition.batch = batch;
  addition.count = watch_->count();
  const auto rows = static_cast<std::int64_t>(batch.size());
  addition.stops.resize(static_cast<std::size_t>((addition.count + rows) / kConsiderPeriod -
                                                 addition.count / kConsiderPeriod) +
                        addition.row_ends.size());
  const std::int64_t before = Watched();
  std::vector<std::size_t>& group_of = addition.group_of;
  group_of.resize(monitoring_.group_tag.empty() ? 0 : batch.size());
  for (std::size_t i = 0; i < group_of.size(); ++i) {
    const bool as_before = i > 0 && groups[i] == groups[i - 1];
    group_of[i] =
        as_before ? group_of[i - 1] : GroupOf(groups[i], before + static_cast<std::int64_t>(i));
  }
  for (std::size_t i = 0; i < group_of.size(); ++i) {
    groups_[group_of[i]].error.AddRow(batch, i, before + static_cast<std::int64_t>(i) + 1);
  }
}

void ModelMonitor::AddStatistics(Addition& addition) noexcept {
  const auto add = [&](std::size_t first, std::size_t rows) {
    watch_->AddStatistics(addition.batch.rows(first, rows));
  };
  VisitPlaces(addition, add, [&](const Place& place) {
    Addition::Stop& stop = addition.stops[place.stop];
    stop.log_classes = watch_->LogClassMean();
    if (place.row.has_value()) stop.total = watch_->reliability().Total();
    addition.ready.store(place.stop + 1, std::memory_order_release);
    addition.ready.notify_one();
  });
}

void ModelMonitor::AddEvidence(std::int64_t observations, const ParallelLoop& parallel,
                               Addition& addition) {
  const auto add = [&](std::size_t first, std::size_t rows) {
    const std::span<const std::size_t> group_of(addition.group_of);
    AddSome(addition.batch.rows(first, rows),
            group_of.empty() ? group_of : group_of.subspan(first, rows), parallel);
  };
  VisitPlaces(addition, add, [&](const Place& place) {
    while (true) {
      const std::size_t ready = addition.ready.load(std::memory_order_acquire);
      if (ready > place.stop) break;
      addition.ready.wait(ready, std::memory_order_acquire);
    }
    const Addition::Stop& stop = addition.stops[place.stop];
    Consider(stop.log_classes);
    if (place.ends_period) {
      watch_->RecordMaximum();
      for (const Group& group : groups_) {
        if (!group.IsEmpty()) group.watch->RecordMaximum();
      }
    }
    if (!place.row.has_value()) return;
    const RowEnd& row = addition.row_ends[*place.row];
    DecideEvidence(row.time, observations + static_cast<std::int64_t>(row.end), stop.total,
                   *place.row, addition.evidence_alarms);
  });
}

void ModelMonitor::EndAdd(Addition& addition) {
  std::vector<RowAlarm>& alarms = addition.evidence_alarms;
  std::ranges::move(addition.limit_alarms, std::back_inserter(alarms));
  std::ranges::stable_sort(alarms, {}, &RowAlarm::row);
  for (RowAlarm& one : alarms) alarms_.Raise(std::move(one.alarm));
}

void ModelMonitor::AddSome(const PredictionBatch& batch, std::span<const std::size_t> group_of,
                           const ParallelLoop& parallel) {
  watch_->AddEvidence(batch, parallel);
  if (group_of.empty()) return;
  for (std::size_t group = 0; group < groups_.size(); ++group) AddToGroup(batch, group_of, group);
}

double ModelMonitor::LogGroupMean(std::span<const Group> groups) const noexcept {
  if (monitoring_.group_tag.empty()) return 0;
  const auto slots = static_cast<double>(monitoring_.max_groups);
  // The largest e-value is taken out of the sum, which could overflow.
  double most = 0;
  auto unseen = slots;
  for (const Group& group : groups) {
    if (group.id.overflow || group.IsEmpty()) continue;
    most = std::max(most, group.watch->LogEValue());
    --unseen;
  }
  double sum = unseen * std::exp(-most);
  for (const Group& group : groups) {
    if (!group.id.overflow && !group.IsEmpty()) sum += std::exp(group.watch->LogEValue() - most);
  }
  return most + std::log(sum / slots);
}

void ModelMonitor::Consider(double log_classes) noexcept {
  for (const Group& group : groups_) {
    // A snapshot is unset if observations were added.
    if (group.snapshot != nullptr || group.IsEmpty()) continue;
    group.watch->Consider({.log_classes = group.watch->LogClassMean(), .log_groups = 0});
  }
  watch_->Consider({.log_classes = log_classes, .log_groups = LogGroupMean(groups_)});
}

void ModelMonitor::AddToGroup(const PredictionBatch& batch, std::span<const std::size_t> group_of,
                              std::size_t group) {
  const auto rows = static_cast<std::size_t>(std::count(group_of.begin(), group_of.end(), group));
  if (rows == 0) return;
  EvidenceWatch& watch = *groups_[group].watch;
  groups_[group].snapshot = nullptr;
  if (rows == batch.size()) {
    watch.Add(batch);
    return;
  }
  // Added together, because adding rows one by one costs several times as much with many classes.
  std::vector<double> probabilities;
  std::vector<std::int32_t> labels;
  probabilities.reserve(rows * batch.class_count);
  labels.reserve(rows);
  for (std::size_t i = 0; i < batch.size(); ++i) {
    if (group_of[i] != group) continue;
    const std::span<const double> g = batch.row(i);
    probabilities.insert(probabilities.end(), g.begin(), g.end());
    labels.push_back(batch.labels[i]);
  }
  watch.Add({.probabilities = probabilities, .labels = labels, .class_count = batch.class_count});
}

void ModelMonitor::Decide(Alarm::Time time, std::int64_t observations) {
  last_counted_time_ = time;
  if (watch_ != nullptr) {
    Consider(watch_->LogClassMean());
    std::vector<RowAlarm> alarms;
    DecideEvidence(time, observations, watch_->reliability().Total(), /*row=*/0, alarms);
    for (RowAlarm& one : alarms) alarms_.Raise(std::move(one.alarm));
  }
  RaiseOverLimit(time);
}

void ModelMonitor::RaiseOverLimit(Alarm::Time time) {
  const auto raise = [&](ErrorWatch& error, const GroupId* group) {
    std::optional<Alarm> alarm = TakeOverLimit(error, group, time);
    if (alarm.has_value()) alarms_.Raise(*std::move(alarm));
  };
  raise(error_, nullptr);
  for (Group& group : groups_) raise(group.error, &group.id);
}

void ModelMonitor::DecideEvidence(Alarm::Time time, std::int64_t observations,
                                  const RunningReliability::Bin& total, std::size_t row,
                                  std::vector<RowAlarm>& pending) const {
  if (total.count < monitoring_.min_observations) return;
  const EvidenceReading reading = watch_->Read();
  Alarm alarm;
  alarm.raise_time = time;
  const std::int64_t before = watch_->first_observation() - 1;
  const auto decide = [&](Alarm::Kind kind, const RunningMaximum& maximum, double threshold,
                          std::int64_t reached_at) {
    alarm.kind = kind;
    // If the two logarithms of a threshold differ by rounding, the newest observation is used.
    alarm.observation =
        reached_at > 0 ? before + std::max(reached_at, monitoring_.min_observations) : observations;
    alarm.log10_value = maximum.log_value / std::numbers::ln10;
    alarm.threshold = threshold;
    const bool is_active =
        FindActiveIn(*alarms_.alarms(), kind) != nullptr ||
        std::ranges::any_of(pending, [&](const RowAlarm& one) { return one.alarm.kind == kind; });
    if (alarm.log10_value < threshold || is_active) return;
    const EffectSize effect = ComputeEffectSize(reading, {}, monitoring_.significance_level);
    alarm.skce = effect.skce;
    alarm.skce_lower_bound = effect.skce_lower_bound;
    alarm.gap =
        (total.confidence - static_cast<double>(total.correct)) / static_cast<double>(total.count);
    alarm.family_share = reading.evidence.family_share;
    pending.push_back({row, alarm});
  };
  decide(Alarm::Kind::kEvidence, reading.maximum, EvidenceThreshold(monitoring_.significance_level),
         reading.evidence_reached_at);
  decide(Alarm::Kind::kDrift, reading.drift.maximum, DriftThreshold(monitoring_.average_run_length),
         reading.drift_reached_at);
}

std::optional<Alarm> ModelMonitor::TakeOverLimit(ErrorWatch& error, const GroupId* group,
                                                 Alarm::Time time) {
  error.SetTime(time);
  const std::optional<LimitCrossing> crossing = error.TakeCrossing();
  if (!crossing.has_value()) return std::nullopt;
  return OverLimitAlarm(*crossing, group, time);
}

void ModelMonitor::Acknowledge(std::int64_t alarm_id, const std::string& note, Alarm::Time time,
                               std::int64_t observations) {
  const std::optional<Alarm> alarm = alarms_.Acknowledge(alarm_id, note, time);
  if (!alarm.has_value()) return;
  if (alarm->kind == Alarm::Kind::kOverLimit) {
    if (!alarm->group.has_value()) error_.Acknowledge(observations);
    for (Group& group : groups_) {
      if (alarm->group != group.id) continue;
      group.error.Acknowledge(observations);
      group.snapshot = nullptr;
    }
  } else {
    Restart(
        alarm->kind == Alarm::Kind::kEvidence ? MonitorRestart::kEvidence : MonitorRestart::kDrift,
        observations);
  }
}

void ModelMonitor::Update(const Monitoring& monitoring, Alarm::Time time,
                          std::int64_t observations) {
  const Monitoring former = std::exchange(monitoring_, monitoring);
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

void ModelMonitor::Restart(MonitorRestart restart, std::int64_t observations) {
  if (watch_ == nullptr || restart == MonitorRestart::kNothing) return;
  const auto begin_anew = [&](std::unique_ptr<EvidenceWatch>& watch) {
    if (restart == MonitorRestart::kEvidence) {
      watch = NewWatch(watch->basis(), observations + 1);
    } else {
      watch->RestartDrift(Marks());
    }
  };
  begin_anew(watch_);
  for (Group& group : groups_) {
    begin_anew(group.watch);
    group.snapshot = nullptr;
  }
}

std::optional<EvidenceReading> ModelMonitor::Read() const {
  return watch_ != nullptr ? std::optional(watch_->Read()) : std::nullopt;
}

MonitorSnapshot ModelMonitor::Snapshot() {
  MonitorSnapshot snapshot;
  if (watch_ != nullptr) snapshot.watch = watch_->Snapshot(monitoring_.significance_level);
  snapshot.error = error_.Snapshot();
  snapshot.alarms = alarms_.alarms();
  snapshot.last_counted_time = last_counted_time_;
  snapshot.screen = screen_.counts();
  snapshot.raised = alarms_.raised();
  for (Group& group : groups_) {
    if (group.snapshot == nullptr) {
      group.snapshot = std::make_shared<GroupSnapshot>(GroupSnapshot{
          group.id, group.watch->Snapshot(monitoring_.significance_level), group.error.Snapshot()});
    }
    snapshot.groups.push_back(group.snapshot);
  }
  return snapshot;
}

}  // namespace calibd::server
