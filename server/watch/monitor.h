#ifndef CALIBD_SERVER_WATCH_MONITOR_H_
#define CALIBD_SERVER_WATCH_MONITOR_H_

#include <algorithm>
#include <array>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <iterator>
#include <memory>
#include <numbers>
#include <optional>
#include <span>
#include <string>
#include <type_traits>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "calibd/core/evidence.h"
#include "calibd/core/run_control.h"
#include "calibd/core/status_macros.h"
#include "calibd/store/v1/store.pb.h"
#include "server/model/monitoring.h"
#include "server/rows/group_values.h"
#include "server/watch/alarm_log.h"
#include "server/watch/limit_watch.h"
#include "server/watch/monitor_snapshot.h"
#include "server/watch/reference_watch.h"
#include "server/watch/rows_by_group.h"
#include "server/watch/state_fields.h"

namespace calibd::server {

// The fields of a group's id, and of the time of the newest counted observation, in the store.
inline void GroupIdFields(StateFields& fields, GroupId& id) {
  fields(store::v1::GroupState::kValueFieldNumber, id.value);
  fields(store::v1::GroupState::kOverflowFieldNumber, id.overflow);
}
inline void LastCountedFields(StateFields& fields, std::optional<Alarm::Time>& time) {
  fields(store::v1::MonitorState::kLastCountedTimeUsFieldNumber, time);
}

// The serial dependence that was found with the evidence; see SerialDependence.
struct FoundDependence {
  // The observation of the model at which it was found; 0 if it was not.
  std::int64_t found_at = 0;
  // The position of the label whose own outcomes show it.
  std::optional<std::size_t> label;
};
// That of the evidence before it was restarted.
inline void FormerDependenceFields(StateFields& fields, FoundDependence& former) {
  fields(store::v1::MonitorState::kFormerDependenceFoundAtFieldNumber, former.found_at);
  fields(store::v1::MonitorState::kFormerDependentLabelFieldNumber, former.label);
}

// The end of a row of the log in a batch that contains several.
struct RowEnd {
  // Index of the first observation after the row.
  std::size_t end = 0;
  Alarm::Time time;
};

// Monitors the observations of a model and raises alarms. It decides once per row of the log, or
// once per minute of its prediction times, and the decision depends only on this row and the rows
// before it. Not thread-safe.
class AnyMonitor {
 public:
  // Proves that all parts of the newest observations were added. Decide requires it.
  class Added {
   public:
    Added(Added&&) noexcept = default;
    Added& operator=(Added&&) noexcept = default;

   private:
    template <typename Kind>
    friend class Monitor;
    Added() = default;
  };

  AnyMonitor() = default;
  AnyMonitor(const AnyMonitor&) = delete;
  AnyMonitor& operator=(const AnyMonitor&) = delete;
  virtual ~AnyMonitor() = default;

  // Raises alarms after the observations of a row of the log, or after those of a minute in it.
  // time: of the row, or of the newest of the observations. observations: of the model. May throw
  // bad_alloc; this object must not be used afterwards, and the next start replays the log.
  virtual void Decide(Added added, Alarm::Time time, std::int64_t observations) = 0;
  // Call it after Decide. time: of the row of the log.
  virtual void SetCountedTime(Alarm::Time time) noexcept = 0;
  // Acknowledges an alarm. Does nothing if there is no such alarm or it was acknowledged before.
  // observations: of the model. May throw like Decide.
  virtual void Acknowledge(std::int64_t alarm_id, const std::string& note, Alarm::Time time,
                           std::int64_t observations) = 0;
  // Changes the settings and begins anew what RestartOf says; alarms stay. observations: of the
  // model. May throw like Decide.
  virtual void Update(const Monitoring& monitoring, Alarm::Time time,
                      std::int64_t observations) = 0;

  // Evidence of the whole model; unset before it has begun.
  [[nodiscard]] virtual std::optional<EvidenceReading> Read() const = 0;
  // Number of alarms raised so far.
  [[nodiscard]] virtual const Alarm::Counts& raised() const noexcept = 0;
  [[nodiscard]] virtual MonitorSnapshot Snapshot() = 0;
  virtual void Save(store::v1::MonitorState& out) const = 0;
};

// The monitor of models of one kind. A Kind is a value that knows what the predictions are and what
// evidence there is against them:
// - Batch: a view of observations, with size() and rows(first, count). Gathered: a copy of single
//   rows, made from (batch, rows), with Add(batch, i) and view().
// - Watch: the evidence of a stream of observations, with first_observation(), count(),
//   AddEvidence(ahead, rows, parallel), which adds the first rows of a batch whose other rows
//   follow, Add(ahead, rows), which adds them to the statistics of the watch too, Read(), maxima()
//   of the logarithms that Read() has, RestartDrift(marks) and Save(out).
//   NewWatch(first_observation, monitoring, marks): a null pointer while the kind cannot know the
//   evidence.
// - AddStatistics(watch, batch): adds the rest of what Watch::Add adds, and sums of the model; runs
//   beside AddEvidence.
// - Stop: what the evidence needs of the statistics at one observation; StopAt(watch, ends_row).
//   If it is no empty struct, the evidence considers it every kConsiderPeriod observations of the
//   watch and at the end of each row of the log, which ConsiderGroup(watch), Consider(watch, stop,
//   groups, monitoring) and Watch::RecordMaximum() do.
// - Count(watch, stop): the observations of the watch. Describe(watch, stop, reading, monitoring,
//   alarm): fills in what an alarm of the evidence says about the predictions.
// - Measure, RowOf(batch, i), NewMeasure(monitoring), NewGroupMeasure(monitoring): see LimitWatch.
// - If each prediction is about several labels, which have limits of their own: label_count(),
//   NewLabelMeasure(monitoring), and LabelRowOf(batch, i, label), unset if its truth is missing.
// A kind without Gathered has no groups.
// - If their error can be compared with a reference: OutcomeOf(batch, row), the stated probability
//   of an event and whether it was missed, and reference_seed(), which is fixed before the rows.
// - Screen(batch): sees all received rows; screened(). Optionally dependence_found_at(): the
//   observation of the watch at which serial dependence was found, 0 before. A kind of several
//   labels says with dependent_label() whose outcomes alone show it.
// - SnapshotOf(watch, is_model, monitoring). Updated(monitoring). Restarted(): the evidence of the
//   model begins anew.
// - Save(out): what is not in the watches. RestoreWatch(stored, groups, monitoring, watch), and
//   RestoreSums(stored, watch) for the sums of the model.
template <typename Kind>
class Monitor final : public AnyMonitor {
 public:
  using Batch = typename Kind::Batch;
  using Watch = typename Kind::Watch;
  using Stop = typename Kind::Stop;
  using ErrorWatch = LimitWatch<typename Kind::Measure>;
  static constexpr bool kHasLabels = requires(const Kind& kind) { kind.label_count(); };
  static constexpr bool kHasReference = requires(const Kind& kind) { kind.reference_seed(); };

  struct Group {
    GroupId id;
    std::unique_ptr<Watch> watch;
    ErrorWatch error;
    // Null if the group has changed since.
    std::shared_ptr<const GroupSnapshot> snapshot;
    // False if observations were added since ConsiderGroup.
    bool is_considered = false;

    // A batch adds all its groups before its first row. Until then a group must not be computed
    // with, because rounding would record an e-value just above 1 that depends on the batch.
    [[nodiscard]] bool IsEmpty() const { return watch->count() == 0; }
  };

  // Observations that are being added, in parts that may run at the same time on different threads.
  // They must begin in their order, because the evidence waits for the statistics. All must have
  // returned before End.
  class Adding {
   public:
    enum Part : std::size_t { kStatistics, kEvidence, kError, kParts };

    Adding(const Adding&) = delete;
    Adding& operator=(const Adding&) = delete;

    // parallel: may be null. May throw like Decide.
    void Run(Part part, const ParallelLoop& parallel) { monitor_.Run(part, parallel, *this); }
    // Raises the alarms of all rows of the log but the last one.
    [[nodiscard]] Added End() && { return monitor_.End(*this); }

   private:
    friend class Monitor;

    // An alarm after the row of the log with this index.
    struct RowAlarm {
      std::size_t row = 0;
      Alarm alarm;
    };

    // An observation after which evidence is considered: the last one of a period, or of a row of
    // the log.
    struct Place {
      std::size_t stop = 0;
      bool ends_period = false;
      // Index in row_ends.
      std::optional<std::size_t> row;
    };

    Adding(Monitor& monitor, const Batch& batch, const GroupValues& groups,
           std::int64_t observations, std::span<const RowEnd> row_ends)
        : monitor_(monitor), batch_(batch), observations_(observations), row_ends_(row_ends) {
      monitor_.Prepare(groups, *this);
    }

    // Calls add with the rows before each place, and then at_place.
    template <typename Add, typename AtPlace>
    void Visit(const Add& add, const AtPlace& at_place) const;

    Monitor& monitor_;
    const Batch batch_;
    // Number of observations of the model before the batch.
    const std::int64_t observations_;
    // All rows of the log but the last one, if the batch contains several. Empty with a group tag.
    const std::span<const RowEnd> row_ends_;
    // The group of each row; empty without a group tag.
    std::vector<std::size_t> group_of_;
    // Number of observations of the watch before the batch.
    std::int64_t count_ = 0;
    std::vector<RowAlarm> evidence_alarms_;
    std::vector<RowAlarm> limit_alarms_;
    // One for each place. The statistics have computed the first `ready` ones.
    std::vector<Stop> stops_;
    std::atomic<std::size_t> ready_ = 0;
  };

  Monitor(Monitoring monitoring, Kind kind)
      : monitoring_(std::move(monitoring)), kind_(std::move(kind)), error_(NewError(1)) {
    BeginLabels(1);
    BeginReference(1);
  }

  [[nodiscard]] Kind& kind() noexcept { return kind_; }
  [[nodiscard]] const Kind& kind() const noexcept { return kind_; }
  // True once the evidence has begun.
  [[nodiscard]] bool has_watch() const noexcept { return watch_ != nullptr; }

  // Adds observations of the warm-up: to the error, but not yet to the evidence. observations: of
  // the model, before them. May throw like Decide.
  [[nodiscard]] Added AddWarmup(const Batch& batch, const GroupValues& groups,
                                std::int64_t observations) {
    KeepWarmup(groups, batch.size());
    kind_.Screen(batch);
    for (std::size_t i = 0; i < batch.size(); ++i) {
      AddError(batch, i, observations + static_cast<std::int64_t>(i) + 1);
    }
    return {};
  }
  // A part of AddWarmup, for observations whose error a restored state includes.
  void KeepWarmup(const GroupValues& groups, std::size_t rows) {
    for (std::size_t i = 0; !monitoring_.group_tag.empty() && i < rows; ++i) {
      warmup_groups_.push_back(groups[i]);
    }
  }
  // Begins the evidence, if the kind knows it. warmup: the rows of AddWarmup. May throw like
  // Decide.
  void Begin(const Batch& warmup) {
    watch_ = kind_.NewWatch(1, monitoring_, Marks());
    warmup_end_ = static_cast<std::int64_t>(warmup.size());
    if (watch_ != nullptr) {
      Adding adding(*this, warmup, GroupValues(warmup_groups_), 0, {});
      AddStatistics(adding);
      AddEvidence(nullptr, adding);
    }
    warmup_groups_ = {};
  }
  // Adds observations after Begin. row_ends: the ends of all rows of the log but the last one; none
  // with a group tag.
  [[nodiscard]] Adding BeginAdd(const Batch& batch, const GroupValues& groups,
                                std::int64_t observations, std::span<const RowEnd> row_ends) {
    return Adding(*this, batch, groups, observations, row_ends);
  }

  void Decide(Added added, Alarm::Time time, std::int64_t observations) override;
  void SetCountedTime(Alarm::Time time) noexcept override { last_counted_time_ = time; }
  void Acknowledge(std::int64_t alarm_id, const std::string& note, Alarm::Time time,
                   std::int64_t observations) override;
  void Update(const Monitoring& monitoring, Alarm::Time time, std::int64_t observations) override;
  [[nodiscard]] std::optional<EvidenceReading> Read() const override {
    return watch_ != nullptr ? std::optional(watch_->Read()) : std::nullopt;
  }
  [[nodiscard]] const Alarm::Counts& raised() const noexcept override { return alarms_.raised(); }
  [[nodiscard]] MonitorSnapshot Snapshot() override;
  void Save(store::v1::MonitorState& out) const override;
  // Call it before the first observation. The kind must be restored. Errors: InvalidArgument; this
  // object must not be used then.
  [[nodiscard]] absl::Status Restore(const store::v1::MonitorState& stored);

 private:
  using RowAlarm = typename Adding::RowAlarm;

  // The values at which alarms are raised.
  [[nodiscard]] EvidenceMarks Marks() const noexcept {
    return {.log_e = EvidenceThreshold(monitoring_.significance_level) * std::numbers::ln10,
            .log_shiryaev_roberts =
                DriftThreshold(monitoring_.average_run_length) * std::numbers::ln10};
  }
  [[nodiscard]] ErrorWatch NewError(std::int64_t first_observation) const {
    return ErrorWatch(
        kind_.NewMeasure(monitoring_),
        {.error_limit = monitoring_.error_limit, .min_observations = monitoring_.min_observations},
        first_observation);
  }
  [[nodiscard]] ErrorWatch NewLabelError(std::int64_t first_observation) const requires kHasLabels {
    return ErrorWatch(
        kind_.NewLabelMeasure(monitoring_),
        {.error_limit = monitoring_.error_limit, .min_observations = monitoring_.min_observations},
        first_observation);
  }
  // The error of a single label is that of the model, so that one fact raises one alarm.
  void BeginLabels(std::int64_t first_observation) {
    if constexpr (kHasLabels) {
      label_errors_.assign(kind_.label_count() > 1 ? kind_.label_count() : 0,
                           NewLabelError(first_observation));
    }
  }
  // Begins a new reference, or none if the model declares none.
  void BeginReference(std::int64_t first_observation) {
    if constexpr (kHasReference) {
      reference_ = nullptr;
      if (monitoring_.reference_rows == 0) return;
      reference_ = std::make_unique<ReferenceWatch>(
          ReferenceChange::Settings{.reference_rows = monitoring_.reference_rows,
                                    .significance_level = monitoring_.significance_level,
                                    .seed = kind_.reference_seed(),
                                    .first_observation = first_observation});
    }
  }
  [[nodiscard]] std::size_t LabelCount() const noexcept {
    if constexpr (kHasLabels) return kind_.label_count();
    return 0;
  }
  // Adds a row to the error of the model and to those of its labels, and compares it with the
  // reference. observation: its number within the model.
  void AddError(const Batch& batch, std::size_t row, std::int64_t observation) {
    error_.Add(kind_.RowOf(batch, row), observation);
    if constexpr (kHasReference) {
      if (reference_ != nullptr) {
        const auto [stated, missed] = kind_.OutcomeOf(batch, row);
        reference_->Add(stated, missed);
      }
    }
    if constexpr (kHasLabels) {
      for (std::size_t k = 0; k < label_errors_.size(); ++k) {
        const auto one = kind_.LabelRowOf(batch, row, k);
        if (one.has_value()) label_errors_[k].Add(*one, observation);
      }
    }
  }
  // Calls raise(alarm) for the model and for each label whose error crossed its limit, and if the
  // error has changed.
  template <typename Raise>
  void TakeModelAlarms(Alarm::Time time, const Raise& raise) {
    if (std::optional<Alarm> alarm = TakeChanged(time)) raise(*std::move(alarm));
    if (std::optional<Alarm> alarm = TakeOverLimit(error_, nullptr, time)) raise(*std::move(alarm));
    for (std::size_t k = 0; k < label_errors_.size(); ++k) {
      std::optional<Alarm> alarm = TakeOverLimit(label_errors_[k], nullptr, time);
      if (!alarm.has_value()) continue;
      alarm->label = k;
      raise(*std::move(alarm));
    }
  }
  [[nodiscard]] ErrorWatch NewGroupError(std::int64_t first_observation) const {
    return ErrorWatch(kind_.NewGroupMeasure(monitoring_),
                      {.error_limit = monitoring_.error_limit,
                       .min_observations = monitoring_.min_group_observations},
                      first_observation);
  }
  // Index in groups_ of the group of this value. Creates the group if it is missing.
  [[nodiscard]] std::size_t GroupOf(const std::string& value, std::int64_t observations);

  void Run(typename Adding::Part part, const ParallelLoop& parallel, Adding& adding);
  // Finds the groups of the rows, and measures their errors.
  void Prepare(const GroupValues& groups, Adding& adding);
  void AddStatistics(Adding& adding);
  void AddEvidence(const ParallelLoop& parallel, Adding& adding);
  void MeasureError(Adding& adding);
  [[nodiscard]] Added End(Adding& adding);

  // Lets the watches of the groups and then that of the model consider other evidence.
  void Consider(const Stop& stop);
  // Adds the alarms of the model's watch after a row of the log. pending: alarms that are not
  // raised yet.
  void DecideEvidence(Alarm::Time time, std::int64_t observations, const Stop& stop,
                      std::size_t row, std::vector<RowAlarm>& pending) const;
  // Raises the alarms of the model and its groups whose error crossed its limit.
  void RaiseOverLimit(Alarm::Time time);
  // Returns the alarm if the error is shown to have changed. After an update, the alarm of a former
  // reference may be active; it stays the only one.
  [[nodiscard]] std::optional<Alarm> TakeChanged(Alarm::Time time) {
    if (reference_ == nullptr) return std::nullopt;
    reference_->SetTime(time);
    if (!reference_->TakeChange()) return std::nullopt;
    if (FindActiveIn(*alarms_.alarms(), Alarm::Kind::kChanged) != nullptr) return std::nullopt;
    return ChangedAlarm(reference_->Snapshot(), EvidenceThreshold(monitoring_.significance_level),
                        time);
  }
  // Returns the alarm if the error crossed its limit. group: null for the model.
  [[nodiscard]] static std::optional<Alarm> TakeOverLimit(ErrorWatch& error, const GroupId* group,
                                                          Alarm::Time time) {
    error.SetTime(time);
    const std::optional<LimitCrossing> crossing = error.TakeCrossing();
    return crossing.has_value() ? std::optional(OverLimitAlarm(*crossing, group, time))
                                : std::nullopt;
  }
  // The serial dependence among the rows of the evidence.
  [[nodiscard]] FoundDependence DependenceOfEvidence() const;
  // Begins anew the evidence, also that of the groups, or only the drift detectors.
  void Restart(MonitorRestart restart, std::int64_t observations);

  Monitoring monitoring_;
  Kind kind_;
  // Null before Begin, and if the kind does not know the evidence.
  std::unique_ptr<Watch> watch_;
  ErrorWatch error_;
  // The errors of the labels; empty for fewer than two labels.
  std::vector<ErrorWatch> label_errors_;
  // Null without a reference.
  std::unique_ptr<ReferenceWatch> reference_;
  std::vector<Group> groups_;
  // Group value of each warm-up observation so far; empty without a group tag.
  std::vector<std::string> warmup_groups_;
  // Number of observations when the evidence began. 0 in a restored state, whose warm-up was judged
  // before it was saved.
  std::int64_t warmup_end_ = 0;
  AlarmLog alarms_;
  // That of the evidence before it was restarted. It stays a reason for doubt while an alarm of the
  // rows before the restart is active.
  FoundDependence former_dependence_;
  std::optional<Alarm::Time> last_counted_time_;
};

template <typename Kind>
template <typename Add, typename AtPlace>
void Monitor<Kind>::Adding::Visit(const Add& add, const AtPlace& at_place) const {
  std::int64_t count = count_;
  std::size_t stop = 0;
  std::size_t row = 0;
  for (std::size_t first = 0; first < batch_.size();) {
    const auto left =
        static_cast<std::size_t>(Kind::kConsiderPeriod - count % Kind::kConsiderPeriod);
    std::size_t rows = std::min(batch_.size() - first, left);
    if (row < row_ends_.size()) rows = std::min(rows, row_ends_[row].end - first);
    add(first, rows);
    first += rows;
    count += static_cast<std::int64_t>(rows);
    Place place{
        .stop = stop, .ends_period = count % Kind::kConsiderPeriod == 0, .row = std::nullopt};
    if (row < row_ends_.size() && row_ends_[row].end == first) place.row = row++;
    if (!place.ends_period && !place.row.has_value()) continue;
    at_place(place);
    ++stop;
  }
}

template <typename Kind>
void Monitor<Kind>::Run(typename Adding::Part part, const ParallelLoop& parallel, Adding& adding) {
  if (part == Adding::kError) {
    kind_.Screen(adding.batch_);
    return MeasureError(adding);
  }
  if (watch_ == nullptr) return;
  part == Adding::kStatistics ? AddStatistics(adding) : AddEvidence(parallel, adding);
}

template <typename Kind>
void Monitor<Kind>::Prepare(const GroupValues& groups, Adding& adding) {
  if (watch_ == nullptr) return;
  adding.count_ = watch_->count();
  const auto rows = static_cast<std::int64_t>(adding.batch_.size());
  adding.stops_.resize(static_cast<std::size_t>((adding.count_ + rows) / Kind::kConsiderPeriod -
                                                adding.count_ / Kind::kConsiderPeriod) +
                       adding.row_ends_.size());
  std::vector<std::size_t>& group_of = adding.group_of_;
  group_of.resize(monitoring_.group_tag.empty() ? 0 : adding.batch_.size());
  for (std::size_t i = 0; i < group_of.size(); ++i) {
    const bool as_before = i > 0 && groups[i] == groups[i - 1];
    group_of[i] = as_before
                      ? group_of[i - 1]
                      : GroupOf(groups[i], adding.observations_ + static_cast<std::int64_t>(i));
  }
  for (std::size_t i = 0; i < group_of.size(); ++i) {
    groups_[group_of[i]].error.Add(kind_.RowOf(adding.batch_, i),
                                   adding.observations_ + static_cast<std::int64_t>(i) + 1);
  }
}

template <typename Kind>
std::size_t Monitor<Kind>::GroupOf(const std::string& value, std::int64_t observations) {
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
                     .watch = kind_.NewWatch(observations + 1, monitoring_, Marks()),
                     .error = NewGroupError(observations + 1),
                     .snapshot = nullptr});
  return groups_.size() - 1;
}

template <typename Kind>
void Monitor<Kind>::AddStatistics(Adding& adding) {
  if constexpr (std::is_empty_v<Stop>) {
    kind_.AddStatistics(*watch_, adding.batch_);
  } else {
    const auto add = [&](std::size_t first, std::size_t rows) {
      kind_.AddStatistics(*watch_, adding.batch_.rows(first, rows));
    };
    adding.Visit(add, [&](const auto& place) {
      adding.stops_[place.stop] = kind_.StopAt(*watch_, place.row.has_value());
      adding.ready_.store(place.stop + 1, std::memory_order_release);
      adding.ready_.notify_one();
    });
  }
}

template <typename Kind>
void Monitor<Kind>::AddEvidence(const ParallelLoop& parallel, Adding& adding) {
  RowsByGroup<Kind> by_group(adding.batch_, adding.group_of_);
  const auto add_to_group = [this](std::size_t index, const Batch& ahead, std::size_t rows) {
    Group& group = groups_[index];
    group.watch->Add(ahead, rows);
    group.snapshot = nullptr;
    group.is_considered = false;
  };
  const auto add = [&](std::size_t first, std::size_t rows) {
    watch_->AddEvidence(adding.batch_.rows(first, adding.batch_.size() - first), rows, parallel);
    by_group.Next(rows, add_to_group);
  };
  adding.Visit(add, [&](const auto& place) {
    const Stop& stop = adding.stops_[place.stop];
    if constexpr (!std::is_empty_v<Stop>) {
      while (true) {
        const std::size_t ready = adding.ready_.load(std::memory_order_acquire);
        if (ready > place.stop) break;
        adding.ready_.wait(ready, std::memory_order_acquire);
      }
      Consider(stop);
      if (place.ends_period) {
        watch_->RecordMaximum();
        for (const Group& group : groups_) {
          if (!group.IsEmpty()) group.watch->RecordMaximum();
        }
      }
    }
    if (!place.row.has_value()) return;
    const RowEnd& row = adding.row_ends_[*place.row];
    DecideEvidence(row.time, adding.observations_ + static_cast<std::int64_t>(row.end), stop,
                   *place.row, adding.evidence_alarms_);
  });
}

template <typename Kind>
void Monitor<Kind>::MeasureError(Adding& adding) {
  const std::span<const RowEnd> ends = adding.row_ends_;
  std::int64_t observations = adding.observations_;
  std::size_t row = 0;
  for (std::size_t i = 0; i < adding.batch_.size(); ++i) {
    AddError(adding.batch_, i, ++observations);
    if (row == ends.size() || i + 1 < ends[row].end) continue;
    TakeModelAlarms(ends[row].time, [&](Alarm alarm) {
      adding.limit_alarms_.push_back({row, std::move(alarm)});
    });
    ++row;
  }
}

template <typename Kind>
AnyMonitor::Added Monitor<Kind>::End(Adding& adding) {
  std::vector<RowAlarm>& alarms = adding.evidence_alarms_;
  std::ranges::move(adding.limit_alarms_, std::back_inserter(alarms));
  std::ranges::stable_sort(alarms, {}, &RowAlarm::row);
  for (RowAlarm& one : alarms) alarms_.Raise(std::move(one.alarm));
  return {};
}

template <typename Kind>
void Monitor<Kind>::Consider(const Stop& stop) {
  if constexpr (!std::is_empty_v<Stop>) {
    for (Group& group : groups_) {
      if (group.is_considered || group.IsEmpty()) continue;
      kind_.ConsiderGroup(*group.watch);
      group.is_considered = true;
    }
    kind_.Consider(*watch_, stop, std::span<const Group>(groups_), monitoring_);
  }
}

template <typename Kind>
void Monitor<Kind>::Decide(Added /*added*/, Alarm::Time time, std::int64_t observations) {
  last_counted_time_ = time;
  if (watch_ != nullptr) {
    const Stop stop = kind_.StopAt(*watch_, /*ends_row=*/true);
    Consider(stop);
    std::vector<RowAlarm> alarms;
    DecideEvidence(time, observations, stop, /*row=*/0, alarms);
    for (RowAlarm& one : alarms) alarms_.Raise(std::move(one.alarm));
  }
  RaiseOverLimit(time);
}

template <typename Kind>
void Monitor<Kind>::DecideEvidence(Alarm::Time time, std::int64_t observations, const Stop& stop,
                                   std::size_t row, std::vector<RowAlarm>& pending) const {
  if (kind_.Count(*watch_, stop) < monitoring_.min_observations) return;
  const auto is_active = [&](Alarm::Kind kind) {
    return FindActiveIn(*alarms_.alarms(), kind) != nullptr ||
           std::ranges::any_of(pending,
                               [&](const RowAlarm& one) { return one.alarm.kind == kind; });
  };
  // A reading takes as long as several observations, and hardly any row raises an alarm. The maxima
  // of a reading may differ in their last digits.
  constexpr double kRounding = 1e-6;
  const EvidenceMarks maxima = watch_->maxima();
  const EvidenceMarks marks = Marks();
  const bool may_raise =
      (maxima.log_e >= marks.log_e - kRounding && !is_active(Alarm::Kind::kEvidence)) ||
      (maxima.log_shiryaev_roberts >= marks.log_shiryaev_roberts - kRounding &&
       !is_active(Alarm::Kind::kDrift));
  if (!may_raise) return;
  const EvidenceReading reading = watch_->Read();
  Alarm alarm;
  alarm.raise_time = time;
  const std::int64_t before = watch_->first_observation() - 1;
  const auto decide = [&](Alarm::Kind kind, const RunningMaximum& maximum, double threshold,
                          std::int64_t reached_at) {
    alarm.kind = kind;
    // If the two logarithms of a threshold differ by rounding, the newest observation is used. The
    // observations of the warm-up are judged at its end, whose time the alarm has.
    alarm.observation =
        reached_at > 0
            ? std::max(before + std::max(reached_at, monitoring_.min_observations), warmup_end_)
            : observations;
    alarm.log10_value = maximum.log_value / std::numbers::ln10;
    alarm.threshold = threshold;
    if (alarm.log10_value < threshold || is_active(kind)) return;
    alarm.family_share = reading.evidence.family_share;
    kind_.Describe(*watch_, stop, reading, monitoring_, alarm);
    pending.push_back({row, alarm});
  };
  decide(Alarm::Kind::kEvidence, reading.maximum, EvidenceThreshold(monitoring_.significance_level),
         reading.evidence_reached_at);
  decide(Alarm::Kind::kDrift, reading.drift.maximum, DriftThreshold(monitoring_.average_run_length),
         reading.drift_reached_at);
}

template <typename Kind>
void Monitor<Kind>::RaiseOverLimit(Alarm::Time time) {
  TakeModelAlarms(time, [this](Alarm alarm) { alarms_.Raise(std::move(alarm)); });
  for (Group& group : groups_) {
    std::optional<Alarm> alarm = TakeOverLimit(group.error, &group.id, time);
    if (alarm.has_value()) alarms_.Raise(*std::move(alarm));
  }
}

template <typename Kind>
void Monitor<Kind>::Acknowledge(std::int64_t alarm_id, const std::string& note, Alarm::Time time,
                                std::int64_t observations) {
  const std::optional<Alarm> alarm = alarms_.Acknowledge(alarm_id, note, time);
  if (!alarm.has_value()) return;
  if (alarm->kind == Alarm::Kind::kChanged) return BeginReference(observations + 1);
  if (alarm->kind != Alarm::Kind::kOverLimit) {
    return Restart(
        alarm->kind == Alarm::Kind::kEvidence ? MonitorRestart::kEvidence : MonitorRestart::kDrift,
        observations);
  }
  if (alarm->label.has_value()) {
    label_errors_[*alarm->label].Acknowledge(observations);
  } else if (!alarm->group.has_value()) {
    error_.Acknowledge(observations);
  }
  for (Group& group : groups_) {
    if (alarm->group != group.id) continue;
    group.error.Acknowledge(observations);
    group.snapshot = nullptr;
  }
}

template <typename Kind>
void Monitor<Kind>::Update(const Monitoring& monitoring, Alarm::Time time,
                           std::int64_t observations) {
  const Monitoring former = std::exchange(monitoring_, monitoring);
  kind_.Updated(monitoring_);
  Restart(RestartOf(former, monitoring_), observations);
  if (former.reference_rows != monitoring_.reference_rows) {
    BeginReference(observations + 1);
  } else if (reference_ != nullptr && former.significance_level != monitoring_.significance_level) {
    reference_->RestartBets(monitoring_.significance_level);
  }
  if (former.significance_level != monitoring_.significance_level) {
    error_.Restart(NewError(observations + 1));
    if constexpr (kHasLabels) {
      for (ErrorWatch& error : label_errors_) error.Restart(NewLabelError(observations + 1));
    }
    for (Group& group : groups_) group.error.Restart(NewGroupError(observations + 1));
  } else if (former.error_limit != monitoring_.error_limit) {
    error_.SetLimit(monitoring_.error_limit, observations);
    for (ErrorWatch& error : label_errors_) error.SetLimit(monitoring_.error_limit, observations);
    for (Group& group : groups_) group.error.SetLimit(monitoring_.error_limit, observations);
  }
  RaiseOverLimit(time);
  for (Group& group : groups_) group.snapshot = nullptr;
}

template <typename Kind>
void Monitor<Kind>::Restart(MonitorRestart restart, std::int64_t observations) {
  if (watch_ == nullptr || restart == MonitorRestart::kNothing) return;
  const auto begin_anew = [&](std::unique_ptr<Watch>& watch) {
    if (restart == MonitorRestart::kEvidence) {
      watch = kind_.NewWatch(observations + 1, monitoring_, Marks());
    } else {
      watch->RestartDrift(Marks());
    }
  };
  if (restart == MonitorRestart::kEvidence) {
    if (const FoundDependence found = DependenceOfEvidence(); found.found_at > 0) {
      former_dependence_ = found;
    }
    kind_.Restarted();
  }
  begin_anew(watch_);
  for (Group& group : groups_) {
    begin_anew(group.watch);
    group.snapshot = nullptr;
    group.is_considered = false;
  }
}

template <typename Kind>
FoundDependence Monitor<Kind>::DependenceOfEvidence() const {
  FoundDependence found;
  if constexpr (requires { kind_.dependence_found_at(); }) {
    const std::int64_t found_at = kind_.dependence_found_at();
    if (watch_ == nullptr || found_at == 0) return found;
    found.found_at = watch_->first_observation() - 1 + found_at;
    if constexpr (kHasLabels) {
      if (LabelCount() > 1) found.label = kind_.dependent_label();
    }
  }
  return found;
}

template <typename Kind>
MonitorSnapshot Monitor<Kind>::Snapshot() {
  MonitorSnapshot snapshot;
  if (watch_ != nullptr) {
    snapshot.watch = kind_.SnapshotOf(*watch_, /*is_model=*/true, monitoring_);
  }
  snapshot.error = error_.Snapshot();
  for (const ErrorWatch& error : label_errors_) snapshot.labels.push_back(error.Snapshot());
  if (LabelCount() == 1) snapshot.labels.push_back(snapshot.error);
  if (reference_ != nullptr) snapshot.reference = reference_->Snapshot();
  snapshot.alarms = alarms_.alarms();
  snapshot.last_counted_time = last_counted_time_;
  snapshot.screen = kind_.screened();
  FoundDependence dependence = DependenceOfEvidence();
  snapshot.evidence_is_doubtful = dependence.found_at > 0;
  if (!snapshot.evidence_is_doubtful) dependence = former_dependence_;
  const bool is_former_active =
      watch_ != nullptr && std::ranges::any_of(*alarms_.alarms(), [this](const Alarm& alarm) {
        return !alarm.acknowledge_time.has_value() &&
               alarm.observation < watch_->first_observation();
      });
  if (snapshot.evidence_is_doubtful || is_former_active) {
    snapshot.dependence_found_at = dependence.found_at;
    snapshot.dependent_label = dependence.label;
  }
  snapshot.raised = alarms_.raised();
  for (Group& group : groups_) {
    if (group.snapshot == nullptr) {
      group.snapshot = std::make_shared<GroupSnapshot>(
          GroupSnapshot{group.id, kind_.SnapshotOf(*group.watch, /*is_model=*/false, monitoring_),
                        group.error.Snapshot()});
    }
    snapshot.groups.push_back(group.snapshot);
  }
  return snapshot;
}

template <typename Kind>
void Monitor<Kind>::Save(store::v1::MonitorState& out) const {
  if (watch_ != nullptr) watch_->Save(*out.mutable_watch());
  kind_.Save(out);
  alarms_.Save(out);
  for (const Group& group : groups_) {
    store::v1::GroupState& stored = *out.add_groups();
    SaveFields(group.id, stored, GroupIdFields);
    group.watch->Save(*stored.mutable_watch());
    group.error.Save(*stored.mutable_error());
  }
  error_.Save(*out.mutable_error());
  for (const ErrorWatch& error : label_errors_) error.Save(*out.add_label_errors());
  if (reference_ != nullptr) reference_->Save(*out.mutable_reference());
  SaveFields(last_counted_time_, out, LastCountedFields);
  SaveFields(former_dependence_, out, FormerDependenceFields);
}

template <typename Kind>
absl::Status Monitor<Kind>::Restore(const store::v1::MonitorState& stored) {
  watch_ = kind_.NewWatch(1, monitoring_, Marks());
  if (stored.has_watch() != (watch_ != nullptr)) {
    return absl::InvalidArgumentError("has evidence that cannot be, or none");
  }
  const auto groups = static_cast<std::size_t>(stored.groups_size());
  if (groups > 0 &&
      (watch_ == nullptr || monitoring_.group_tag.empty() || groups > monitoring_.max_groups + 1)) {
    return absl::InvalidArgumentError("has impossible groups");
  }
  for (const store::v1::GroupState& group : stored.groups()) {
    GroupId id;
    CALIBD_RETURN_IF_ERROR(RestoreFields(group, id, GroupIdFields));
    Group& restored = groups_.emplace_back(Group{.id = std::move(id),
                                                 .watch = kind_.NewWatch(1, monitoring_, Marks()),
                                                 .error = NewGroupError(1),
                                                 .snapshot = nullptr});
    CALIBD_RETURN_IF_ERROR(
        kind_.RestoreWatch(group.watch(), std::span<const Group>(), monitoring_, *restored.watch));
    CALIBD_RETURN_IF_ERROR(restored.error.Restore(group.error()));
  }
  if (watch_ != nullptr) {
    CALIBD_RETURN_IF_ERROR(
        kind_.RestoreWatch(stored.watch(), std::span<const Group>(groups_), monitoring_, *watch_));
    CALIBD_RETURN_IF_ERROR(kind_.RestoreSums(stored, *watch_));
  }
  CALIBD_RETURN_IF_ERROR(alarms_.Restore(stored));
  error_ = NewError(1);
  CALIBD_RETURN_IF_ERROR(error_.Restore(stored.error()));
  BeginLabels(1);
  if (static_cast<std::size_t>(stored.label_errors_size()) != label_errors_.size() ||
      std::ranges::any_of(*alarms_.alarms(), [this](const Alarm& alarm) {
        return alarm.label.has_value() &&
               *alarm.label >=
                   (alarm.kind == Alarm::Kind::kOverLimit ? label_errors_.size() : LabelCount());
      })) {
    return absl::InvalidArgumentError("has errors or alarms of labels that cannot be");
  }
  for (std::size_t k = 0; k < label_errors_.size(); ++k) {
    CALIBD_RETURN_IF_ERROR(label_errors_[k].Restore(stored.label_errors(static_cast<int>(k))));
  }
  BeginReference(1);
  if (stored.has_reference() != (reference_ != nullptr)) {
    return absl::InvalidArgumentError("has a reference that cannot be, or none");
  }
  if (reference_ != nullptr) CALIBD_RETURN_IF_ERROR(reference_->Restore(stored.reference()));
  CALIBD_RETURN_IF_ERROR(RestoreFields(stored, former_dependence_, FormerDependenceFields));
  if (former_dependence_.label.has_value() && *former_dependence_.label >= LabelCount()) {
    return absl::InvalidArgumentError("has a dependent label that cannot be");
  }
  return RestoreFields(stored, last_counted_time_, LastCountedFields);
}

}  // namespace calibd::server

#endif  // CALIBD_SERVER_WATCH_MONITOR_H_
