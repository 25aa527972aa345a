#ifndef CALIBD_SERVER_STATE_MODEL_MONITOR_H_
#define CALIBD_SERVER_STATE_MODEL_MONITOR_H_

#include <array>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "calibd/core/experts.h"
#include "calibd/core/prediction_batch.h"
#include "calibd/core/running_skce.h"
#include "calibd/store/v1/store.pb.h"
#include "server/state/evidence_watch.h"
#include "server/state/group_values.h"
#include "server/state/monitoring.h"
#include "server/state/row_screen.h"

namespace calibd::server {

// See v1.Alarm.
struct Alarm {
  using Time = std::chrono::system_clock::time_point;
  // As in v1.Alarm and in the store.
  enum class Kind { kEvidence = 1, kDrift = 2 };

  std::int64_t id = 0;
  Kind kind = Kind::kEvidence;
  // Time of the log row that raised the alarm, so that a replay raises the same alarm.
  Time raise_time;
  // Number of the model's observation at which the threshold was reached.
  std::int64_t observation = 0;
  // log10 of the maximum that crossed the threshold.
  double log10_value = 0;
  double threshold = 0;
  std::optional<double> skce;
  std::optional<double> skce_lower_bound;
  double gap = 0;
  std::array<double, kFamilyCount> family_share{};
  // Unset while it is active.
  std::optional<Time> acknowledge_time;
  std::string note;
};

// A group of observations with one value of the model's group tag, at one moment.
struct GroupSnapshot {
  std::string value;
  // The one of all values that have none of their own.
  bool overflow = false;
  WatchSnapshot watch;
};

// What is watched of a model at one moment.
struct MonitorSnapshot {
  // Unset while there is no kernel.
  std::optional<WatchSnapshot> watch;
  // Ascending by id; never null.
  std::shared_ptr<const std::vector<Alarm>> alarms;
  // Time of the newest log row with an observation that was counted.
  std::optional<Alarm::Time> last_counted_time;
  RowScreen::Counts screen;
  // In the order in which they came.
  std::vector<std::shared_ptr<const GroupSnapshot>> groups;
  // Ever, by kind: evidence, drift.
  std::array<std::int64_t, 2> raised{};

  // Nothing when it is not there.
  [[nodiscard]] const Alarm* FindAlarm(std::int64_t id) const noexcept;
  // The one of this kind that is active, if any.
  [[nodiscard]] const Alarm* FindActive(Alarm::Kind kind) const noexcept;
};

// log10 of the e-value at which the evidence alarm is raised.
[[nodiscard]] double EvidenceThreshold(double significance_level) noexcept;

// Watches the observations of a model and decides about alarms. A decision is made once a row of
// the log, and follows from the rows before it alone. Not thread-safe.
class ModelMonitor {
 public:
  // Alarms that are kept, the newest and those that are active.
  static constexpr std::size_t kMostAlarms = 100;

  // window: of the model.
  ModelMonitor(Monitoring monitoring, std::size_t class_count, std::size_t window)
      : monitoring_(std::move(monitoring)), class_count_(class_count), screen_(window) {}

  // A watch that has seen nothing, for Begin; null if the kernel has no features.
  // first_observation: as EvidenceWatch. May throw bad_alloc.
  [[nodiscard]] std::unique_ptr<EvidenceWatch> Prepare(const RunningKernel& kernel,
                                                       std::int64_t first_observation) const;
  // Groups of observations that Begin counts. May throw as Add.
  void KeepWarmup(const GroupValues& groups, std::size_t rows);
  // The kernel is known. watch: or null, when there is none. warmup: the rows of KeepWarmup. May
  // throw as Add.
  void Begin(std::unique_ptr<EvidenceWatch> watch, const PredictionBatch& warmup);

  // Counts observations after Begin. Nothing happens without a kernel. May throw bad_alloc; the
  // object must not be used afterwards, and the next start replays the log.
  void Add(const PredictionBatch& batch, const GroupValues& groups);
  // After the observations of a row of the log. time: of the row. observations: of the model.
  // May throw as Add.
  void Decide(Alarm::Time time, std::int64_t observations);
  // The alarm was dealt with; nothing changes when there is none, or it was before. observations:
  // of the model. May throw as Add.
  void Acknowledge(std::int64_t alarm_id, const std::string& note, Alarm::Time time,
                   std::int64_t observations);
  // Rows that came, whether there is a kernel or not, and after a start those of the window.
  void Screen(const PredictionBatch& batch) noexcept { screen_.Add(batch); }

  // Evidence of the whole model; unset without a kernel.
  [[nodiscard]] std::optional<EvidenceReading> Read() const;
  [[nodiscard]] MonitorSnapshot Snapshot();
  void Save(store::v1::MonitorState& out) const;
  // Before the first observation. kernel: of the canonical lens, if it is known. observations: of
  // the model. What was stored without a watch begins one. Errors: InvalidArgument.
  [[nodiscard]] absl::Status Restore(const store::v1::MonitorState& stored,
                                     const std::optional<RunningKernel>& kernel,
                                     std::int64_t observations);

 private:
  using Alarms = std::vector<Alarm>;
  struct Group {
    std::string value;
    bool overflow = false;
    std::unique_ptr<EvidenceWatch> watch;
    // Null when it is not that of the watch any more.
    std::shared_ptr<const GroupSnapshot> snapshot;
  };

  // May throw bad_alloc.
  [[nodiscard]] std::unique_ptr<EvidenceWatch> NewWatch(
      std::shared_ptr<const RandomFeatures> features, std::int64_t first_observation) const;
  // Where the next observation is, numbered from 0.
  [[nodiscard]] std::int64_t Watched() const;
  // Index in groups_ of the group of this value. Creates the group if it is missing.
  [[nodiscard]] std::size_t GroupOf(const std::string& value, std::int64_t observations);
  // Adds the rows of the batch whose entry in group_of is this group, in order.
  void AddToGroup(const PredictionBatch& batch, std::span<const std::size_t> group_of,
                  std::size_t group);

  void Raise(Alarm alarm, const EvidenceReading& reading);

  Monitoring monitoring_;
  std::size_t class_count_;
  RowScreen screen_;
  std::unique_ptr<EvidenceWatch> watch_;
  std::vector<Group> groups_;
  // Group value of each warm-up observation so far; empty without a group tag.
  std::vector<std::string> warmup_groups_;
  // Replaced, as snapshots share it.
  std::shared_ptr<const Alarms> alarms_ = std::make_shared<Alarms>();
  std::optional<Alarm::Time> last_counted_time_;
  std::array<std::int64_t, 2> raised_{};
};

}  // namespace calibd::server

#endif  // CALIBD_SERVER_STATE_MODEL_MONITOR_H_
