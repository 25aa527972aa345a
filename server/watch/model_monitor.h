#ifndef CALIBD_SERVER_WATCH_MODEL_MONITOR_H_
#define CALIBD_SERVER_WATCH_MODEL_MONITOR_H_

#include <array>
#include <atomic>
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
#include "calibd/core/run_control.h"
#include "calibd/core/running_skce.h"
#include "calibd/store/v1/store.pb.h"
#include "server/model/model_update.h"
#include "server/model/monitoring.h"
#include "server/rows/group_values.h"
#include "server/watch/alarm_log.h"
#include "server/watch/error_watch.h"
#include "server/watch/evidence_watch.h"
#include "server/watch/row_screen.h"

namespace calibd::server {

// A group of observations with one value of the model's group tag, at one moment.
struct GroupSnapshot {
  GroupId id;
  WatchSnapshot watch;
  ErrorSnapshot error;
};

// The monitoring state of a model at one moment.
struct MonitorSnapshot {
  // Unset while there is no kernel.
  std::optional<WatchSnapshot> watch;
  ErrorSnapshot error;
  // Ascending by id; never null.
  std::shared_ptr<const std::vector<Alarm>> alarms;
  // Time of the newest row of the log with a counted observation.
  std::optional<Alarm::Time> last_counted_time;
  RowScreen::Counts screen;
  // In the order of their first observations.
  std::vector<std::shared_ptr<const GroupSnapshot>> groups;
  // Number of alarms raised so far, by kind: evidence, drift, over the limit.
  std::array<std::int64_t, 3> raised{};

  // Returns null if there is no such alarm.
  [[nodiscard]] const Alarm* FindAlarm(std::int64_t id) const noexcept;
  // Returns the first active alarm of this kind, or null.
  [[nodiscard]] const Alarm* FindActive(Alarm::Kind kind) const noexcept;
};

// log10 of the e-value at which the evidence alarm is raised.
[[nodiscard]] double EvidenceThreshold(double significance_level) noexcept;

// Monitors the observations of a model and raises alarms. It decides once per row of the log,
// or once per minute of its prediction times, and the decision depends only on this row and the
// rows before it. Not thread-safe.
class ModelMonitor {
 public:
  // window: the length of the model's window.
  ModelMonitor(Monitoring monitoring, std::size_t class_count, std::size_t window);

  // Creates an empty watch for Begin; null if the kernel has no basis. first_observation: as for
  // EvidenceWatch. May throw bad_alloc.
  [[nodiscard]] std::unique_ptr<EvidenceWatch> Prepare(const RunningKernel& kernel,
                                                       std::int64_t first_observation) const;
  // Keeps the groups of observations of the warm-up, which Begin counts. May throw like Add.
  void KeepWarmup(const GroupValues& groups, std::size_t rows);
  // Begins the watch when the kernel is known. watch: null if the kernel has no basis. warmup:
  // the rows of KeepWarmup. May throw like Add.
  void Begin(std::unique_ptr<EvidenceWatch> watch, const PredictionBatch& warmup);

  // Counts observations after Begin. Does nothing without a kernel. May throw bad_alloc; this
  // object must not be used afterwards, and the next start replays the log.
  void Add(const PredictionBatch& batch, const GroupValues& groups);
  // The end of a row of the log in a batch that contains several.
  struct RowEnd {
    // Index of the first observation after the row.
    std::size_t end = 0;
    Alarm::Time time;
  };
  // An alarm after the row of the log with this index.
  struct RowAlarm {
    std::size_t row = 0;
    Alarm alarm;
  };
  // Observations that are being added.
  struct Addition {
    // What AddEvidence needs of the statistics at one observation.
    struct Stop {
      double log_classes = 0;
      // Set at the end of a row of the log.
      RunningReliability::Bin total;
    };

    PredictionBatch batch;
    // The group of each row; empty without a group tag.
    std::vector<std::size_t> group_of;
    // Number of observations of the watch before the batch.
    std::int64_t count = 0;
    // All rows of the log but the last one, if the batch contains several. Empty with a group tag.
    std::span<const RowEnd> row_ends;
    std::vector<RowAlarm> evidence_alarms;
    std::vector<RowAlarm> limit_alarms;
    // One for each observation at which evidence is considered. AddStatistics has computed the
    // first `ready` ones.
    std::vector<Stop> stops;
    std::atomic<std::size_t> ready = 0;
  };
  // The steps of Add. AddStatistics and AddEvidence may run at the same time on different threads
  // if AddStatistics has begun first, because AddEvidence waits for its results. addition: contains
  // at most row_ends before BeginAdd. observations: of the model, before the batch.
  void BeginAdd(const PredictionBatch& batch, const GroupValues& groups, Addition& addition);
  void AddStatistics(Addition& addition) noexcept;
  void AddEvidence(std::int64_t observations, const ParallelLoop& parallel, Addition& addition);
  // Measures the error of observations, with or without a kernel. May run at the same time as
  // AddStatistics and AddEvidence. May throw like Add.
  void Measure(const PredictionBatch& batch, std::int64_t observations, Addition& addition);
  // Call it after all steps: does for row_ends what Decide does for the last row.
  void EndAdd(Addition& addition);
  // Raises alarms. Call it after the observations of a row of the log were added, or after those of
  // a minute in it. time: of the row, or of the newest of the observations. observations: of the
  // model. May throw like Add.
  void Decide(Alarm::Time time, std::int64_t observations);
  // Call it after Decide. time: of the row of the log.
  void SetCountedTime(Alarm::Time time) noexcept { last_counted_time_ = time; }
  // Acknowledges an alarm. Does nothing if there is no such alarm or it was acknowledged before.
  // observations: of the model. May throw like Add.
  void Acknowledge(std::int64_t alarm_id, const std::string& note, Alarm::Time time,
                   std::int64_t observations);
  // Changes the settings and begins anew what RestartOf says; alarms stay. observations: of the
  // model. May throw like Add.
  void Update(const Monitoring& monitoring, Alarm::Time time, std::int64_t observations);
  // Call it for all received rows, with or without a kernel, and after a start for the rows of the
  // window.
  void Screen(const PredictionBatch& batch) noexcept { screen_.Add(batch); }

  // Evidence of the whole model; unset without a kernel.
  [[nodiscard]] std::optional<EvidenceReading> Read() const;
  // As MonitorSnapshot::raised.
  [[nodiscard]] const std::array<std::int64_t, 3>& raised() const noexcept {
    return alarms_.raised();
  }
  [[nodiscard]] MonitorSnapshot Snapshot();
  void Save(store::v1::MonitorState& out) const;
  // Call it before the first observation. kernel: the kernel of the canonical lens, if it is known.
  // observations: of the model. Errors: InvalidArgument.
  [[nodiscard]] absl::Status Restore(const store::v1::MonitorState& stored,
                                     const std::optional<RunningKernel>& kernel,
                                     std::int64_t observations);

 private:
  struct Group {
    GroupId id;
    std::unique_ptr<EvidenceWatch> watch;
    ErrorWatch error;
    // Null if the group has changed since.
    std::shared_ptr<const GroupSnapshot> snapshot;

    // A batch adds all its groups before its first row. Until then a group must not be computed
    // with, because rounding would record an e-value just above 1 that depends on the batch.
    [[nodiscard]] bool IsEmpty() const { return watch->count() == 0; }
  };

  // The values at which alarms are raised.
  [[nodiscard]] EvidenceMarks Marks() const noexcept;
  // May throw bad_alloc.
  [[nodiscard]] std::unique_ptr<EvidenceWatch> NewWatch(std::shared_ptr<const FourierBasis> basis,
                                                        std::int64_t first_observation) const;
  // Number of observations of the model before the next one.
  [[nodiscard]] std::int64_t Watched() const;
  // Index in groups_ of the group of this value. Creates the group if it is missing.
  [[nodiscard]] std::size_t GroupOf(const std::string& value, std::int64_t observations);
  // The logarithm of the mean e-value of the groups, each with the weight 1 / max_groups. The
  // overflow group has no weight. 0 without a group tag.
  [[nodiscard]] double LogGroupMean(std::span<const Group> groups) const noexcept;
  // Lets the watches of the model and of the groups consider the evidence so far. log_classes: of
  // the model.
  void Consider(double log_classes) noexcept;
  // Adds rows to the watches. group_of: the group of each row; empty without a group tag.
  void AddSome(const PredictionBatch& batch, std::span<const std::size_t> group_of,
               const ParallelLoop& parallel);
  // Adds the rows of the batch whose entry in group_of is this group, in order.
  void AddToGroup(const PredictionBatch& batch, std::span<const std::size_t> group_of,
                  std::size_t group);

  // Begins anew the evidence, also that of the groups, or only the drift detectors.
  void Restart(MonitorRestart restart, std::int64_t observations);

  [[nodiscard]] ErrorWatch NewError(std::int64_t first_observation) const;
  [[nodiscard]] ErrorWatch NewGroupError(std::int64_t first_observation) const;
  // Raises the alarms of the model and its groups whose error crossed its limit.
  void RaiseOverLimit(Alarm::Time time);
  // Returns the alarm if the error crossed its limit. group: null for the model.
  [[nodiscard]] static std::optional<Alarm> TakeOverLimit(ErrorWatch& error, const GroupId* group,
                                                          Alarm::Time time);
  // Adds the alarms of the model's watch after a row of the log. total: of its reliability.
  // pending: alarms that are not raised yet.
  void DecideEvidence(Alarm::Time time, std::int64_t observations,
                      const RunningReliability::Bin& total, std::size_t row,
                      std::vector<RowAlarm>& pending) const;

  Monitoring monitoring_;
  std::size_t class_count_;
  RowScreen screen_;
  std::unique_ptr<EvidenceWatch> watch_;
  ErrorWatch error_;
  std::vector<Group> groups_;
  // Group value of each warm-up observation so far; empty without a group tag.
  std::vector<std::string> warmup_groups_;
  AlarmLog alarms_;
  std::optional<Alarm::Time> last_counted_time_;
};

}  // namespace calibd::server

#endif  // CALIBD_SERVER_WATCH_MODEL_MONITOR_H_
