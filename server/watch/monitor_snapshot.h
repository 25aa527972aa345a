#ifndef CALIBD_SERVER_WATCH_MONITOR_SNAPSHOT_H_
#define CALIBD_SERVER_WATCH_MONITOR_SNAPSHOT_H_

#include <array>
#include <cstdint>
#include <memory>
#include <optional>
#include <vector>

#include "calibd/core/evidence.h"
#include "calibd/v1/calibration_service.pb.h"
#include "calibd/v1/monitoring.pb.h"
#include "server/model/model_declaration.h"
#include "server/watch/alarm_log.h"
#include "server/watch/limit.h"
#include "server/watch/reference_watch.h"
#include "server/watch/row_screen.h"

namespace calibd::server {

struct WatchSnapshot;

// What a watch says about predictions of one kind. watch: the snapshot with the details.
class WatchDetails {
 public:
  WatchDetails() = default;
  WatchDetails(const WatchDetails&) = default;
  WatchDetails& operator=(const WatchDetails&) = default;
  virtual ~WatchDetails() = default;

  // Writes what an answer shows besides the evidence and drift.
  virtual void Describe(const WatchSnapshot& watch, double significance_level,
                        v1::Watch& out) const = 0;
  // Writes in which direction and where the predictions deviate. Only with observations.
  virtual void DescribeVerdict(const ModelDeclaration& declaration, const WatchSnapshot& watch,
                               v1::Verdict& out) const = 0;
  // Writes the direction and the scores of a group, which may have no observation.
  virtual void DescribeGroup(const WatchSnapshot& watch, v1::GroupWatch& out) const = 0;
};

// The state of the evidence of a stream of observations at one moment.
struct WatchSnapshot {
  // Number of the first observation of the watch; the observations of a model are numbered from 1.
  std::int64_t first_observation = 1;
  // The families of experts are those of the kind.
  EvidenceReading reading;
  // Never null.
  std::shared_ptr<const WatchDetails> details;

  // Returns the details if they are of this kind, otherwise null.
  template <typename Details>
  [[nodiscard]] const Details* As() const noexcept {
    return dynamic_cast<const Details*>(details.get());
  }
};

// A group of observations with one value of the model's group tag, at one moment.
struct GroupSnapshot {
  GroupId id;
  WatchSnapshot watch;
  ErrorSnapshot error;
};

// The monitoring state of a model at one moment.
struct MonitorSnapshot {
  // Unset during the warm-up, and if there is no evidence because no kernel can be chosen.
  std::optional<WatchSnapshot> watch;
  ErrorSnapshot error;
  // The errors of the labels of a model of labels, of which a single one is that of the model;
  // empty for other models.
  std::vector<ErrorSnapshot> labels;
  // Set for a model with a reference.
  std::optional<ReferenceSnapshot> reference;
  // Ascending by id; never null.
  std::shared_ptr<const std::vector<Alarm>> alarms;
  // Time of the newest row of the log with a counted observation.
  std::optional<Alarm::Time> last_counted_time;
  RowScreen::Counts screen;
  // The observation of the model at which outcomes of neighbouring rows were found to go together
  // more than the predictions say; 0 before. It also tells of the rows before the evidence began
  // anew, while an alarm of them is active.
  std::int64_t dependence_found_at = 0;
  // Whether this was found among the rows of the evidence.
  bool evidence_is_doubtful = false;
  // The position of the label whose own outcomes show this, of a model of several labels. Unset if
  // no single one does.
  std::optional<std::size_t> dependent_label;
  // The groups in the order of their first observations.
  std::vector<std::shared_ptr<const GroupSnapshot>> groups;
  // Number of alarms raised so far.
  Alarm::Counts raised{};

  // Returns null if there is no such alarm.
  [[nodiscard]] const Alarm* FindAlarm(std::int64_t id) const noexcept;
  // Returns the first active alarm of this kind, or null.
  [[nodiscard]] const Alarm* FindActive(Alarm::Kind kind) const noexcept;
};

// log10 of the e-value at which the evidence alarm is raised.
[[nodiscard]] double EvidenceThreshold(double significance_level) noexcept;

}  // namespace calibd::server

#endif  // CALIBD_SERVER_WATCH_MONITOR_SNAPSHOT_H_
