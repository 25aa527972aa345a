#ifndef CALIBD_SERVER_WATCH_FORECAST_MONITOR_H_
#define CALIBD_SERVER_WATCH_FORECAST_MONITOR_H_

#include <array>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "calibd/core/decision_calibration.h"
#include "calibd/core/forecast_discrepancy.h"
#include "calibd/core/forecast_evidence.h"
#include "calibd/store/v1/store.pb.h"
#include "server/model/model_update.h"
#include "server/model/monitoring.h"
#include "server/rows/group_values.h"
#include "server/watch/alarm_log.h"
#include "server/watch/coverage_watch.h"
#include "server/watch/model_monitor.h"

namespace calibd::server {

// Monitors the observations of a model of forecasts and raises alarms, as ModelMonitor does for
// classes: it decides once per row of the log, or once per minute of its prediction times. The
// evidence begins when the strata are chosen from the warm-up; the coverage is measured from the
// first observation on. Not thread-safe.
class ForecastMonitor {
 public:
  // cells: of the model's forecasts, with this seed; their strata and tolerance are not used.
  // decision: unset for quantiles.
  ForecastMonitor(Monitoring monitoring, std::shared_ptr<const ForecastCells> cells,
                  std::uint64_t seed, std::optional<ThresholdDecision> decision);

  // The cells by which the next rows are described.
  [[nodiscard]] const ForecastCells& cells() const noexcept { return *cells_; }
  // True once the evidence has begun.
  [[nodiscard]] bool begun() const noexcept { return watch_.has_value(); }

  // Keeps the groups of observations of the warm-up, which Begin counts. May throw bad_alloc; this
  // object must not be used afterwards, and the next start replays the log.
  void KeepWarmup(const GroupValues& groups, std::size_t rows);
  // Begins the evidence. warmup: the first observations of the model, those of KeepWarmup. Adds the
  // completed blocks of the discrepancy also to `blocks`. May throw like KeepWarmup.
  void Begin(const NumberForecastBatch& warmup, RunningMoments& blocks);
  // Counts observations. rows: those of the batch, described by cells(). observations: of the
  // model, before them. blocks: as for Begin. May throw like KeepWarmup.
  void Add(const NumberForecastBatch& batch, std::span<const ForecastRow> rows,
           const GroupValues& groups, std::int64_t observations, RunningMoments& blocks);
  // As those of ModelMonitor.
  void Decide(Alarm::Time time, std::int64_t observations);
  void SetCountedTime(Alarm::Time time) noexcept { last_counted_time_ = time; }
  void Acknowledge(std::int64_t alarm_id, const std::string& note, Alarm::Time time,
                   std::int64_t observations);
  void Update(const Monitoring& monitoring, Alarm::Time time, std::int64_t observations);

  // Evidence of the whole model; unset during the warm-up. The families are those of forecasts.
  [[nodiscard]] std::optional<EvidenceReading> Read() const;
  // As MonitorSnapshot::raised.
  [[nodiscard]] const std::array<std::int64_t, 3>& raised() const noexcept {
    return alarms_.raised();
  }
  [[nodiscard]] MonitorSnapshot Snapshot();
  void Save(store::v1::MonitorState& out) const;
  // Call it before the first observation. Errors: InvalidArgument.
  [[nodiscard]] absl::Status Restore(const store::v1::MonitorState& stored);

  // Maximum number of bytes of the watches of a model with these settings.
  [[nodiscard]] static std::size_t MaxMemory(const Monitoring& monitoring,
                                             const NumberForecastKind& kind) noexcept;

 private:
  // The evidence since an observation of the model.
  struct Watch {
    std::int64_t first_observation = 1;
    ForecastEvidence evidence;
  };
  struct Group {
    GroupId id;
    Watch watch;
    CoverageWatch error;
    // Null if the group has changed since.
    std::shared_ptr<const GroupSnapshot> snapshot;
  };

  [[nodiscard]] EvidenceMarks Marks() const noexcept;
  [[nodiscard]] Watch NewWatch(std::int64_t first_observation) const {
    return {.first_observation = first_observation, .evidence = ForecastEvidence(cells_, Marks())};
  }
  [[nodiscard]] CoverageWatch NewError(std::int64_t first_observation) const;
  [[nodiscard]] CoverageWatch NewGroupError(std::int64_t first_observation) const;
  // Begins the discrepancy, which stays unset without a kernel.
  void BeginDiscrepancy();
  // Sets the cells with these strata and the declared tolerance.
  void SetCells(const ForecastStrata& strata);
  // Adds observations to the discrepancy and to the decisions.
  void AddToSums(const NumberForecastBatch& batch, RunningMoments& blocks);
  void AddToGroups(std::span<const ForecastRow> rows, const GroupValues& groups,
                   std::int64_t observations);
  // Index in groups_ of the group of this value. Creates the group if it is missing.
  [[nodiscard]] std::size_t GroupOf(const std::string& value, std::int64_t observations);
  void Restart(MonitorRestart restart, std::int64_t observations);
  void RaiseOverLimit(Alarm::Time time);
  [[nodiscard]] WatchSnapshot SnapshotOf(const Watch& watch) const;

  Monitoring monitoring_;
  std::uint64_t seed_;
  std::shared_ptr<const ForecastCells> cells_;
  // Unset during the warm-up.
  std::optional<Watch> watch_;
  // Chosen from the warm-up; unset before, and if it cannot be chosen.
  std::optional<DiscrepancyKernel> kernel_;
  // Since the watch began; unset without a kernel.
  std::optional<ForecastDiscrepancy> discrepancy_;
  std::optional<ThresholdDecision> decision_;
  // Since the watch began.
  DecisionTotals decisions_;
  CoverageWatch error_;
  std::vector<Group> groups_;
  // Group value of each warm-up observation so far; empty without a group tag.
  std::vector<std::string> warmup_groups_;
  AlarmLog alarms_;
  std::optional<Alarm::Time> last_counted_time_;
};

}  // namespace calibd::server

#endif  // CALIBD_SERVER_WATCH_FORECAST_MONITOR_H_
