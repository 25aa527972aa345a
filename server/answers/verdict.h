#ifndef CALIBD_SERVER_ANSWERS_VERDICT_H_
#define CALIBD_SERVER_ANSWERS_VERDICT_H_

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <vector>

#include "calibd/v1/monitoring.pb.h"
#include "server/state/model.h"

namespace calibd::server {

// The verdict on a model, see v1.Verdict. It points into the snapshot from which it was made.
struct Verdict {
  // How far off the model is, or one of its groups or labels over its limit. The model is within
  // the limit only if all its labels are.
  v1::CalibrationError::Status limit_status = v1::CalibrationError::UNDECIDED;
  bool is_recent = false;
  bool is_acknowledged = false;
  // An alarm over the limit is active, and all such alarms have recovered.
  bool is_recovered = false;
  // In the order of IsFurtherOff.
  std::vector<const GroupSnapshot*> groups_over_limit;
  // Positions of the labels over their limits, the one that is off by most first.
  std::vector<std::size_t> labels_over_limit;
  // Whether calibration is rejected.
  v1::Verdict::Status status = v1::Verdict::INSUFFICIENT_DATA;
  bool stale = false;
  // The alarm of `status`, or null.
  const Alarm* alarm = nullptr;
  // The groups that e-BH over the current e-values of all tested groups rejects, in the order of
  // IsFurtherOff.
  std::vector<const GroupSnapshot*> rejected_groups;
  // The number of classes that e-BH rejects; 0 before min_observations.
  std::int64_t rejected_classes = 0;
};

// The time at which the model's newest observation was counted; without observations, the creation
// time. snapshot: of a monitored model.
[[nodiscard]] std::chrono::system_clock::time_point LastCounted(const Model& model,
                                                                const ModelSnapshot& snapshot);

// True if no observation was counted for stale_after. The verdict's only change that needs no row
// of the log. Always false for a model that is not monitored.
[[nodiscard]] bool IsStale(const Model& model, const ModelSnapshot& snapshot,
                           std::chrono::system_clock::time_point now);

// True if the group has enough observations for e-BH.
[[nodiscard]] bool IsTested(const Monitoring& monitoring, const GroupSnapshot& group);

// True if the model has min_observations, and one of them has a truth. Before that, its e-value
// says nothing about it.
[[nodiscard]] bool IsTested(const Monitoring& monitoring, const MonitorSnapshot& monitor);

// True if the error of a is larger than that of b: the lower end of its interval, or that being
// equal the estimate, of the worst event. A group without rows has no error.
[[nodiscard]] bool IsFurtherOff(const GroupSnapshot* a, const GroupSnapshot* b);

// snapshot: of a monitored model.
[[nodiscard]] Verdict MakeVerdict(const Model& model, const ModelSnapshot& snapshot,
                                  std::chrono::system_clock::time_point now);

}  // namespace calibd::server

#endif  // CALIBD_SERVER_ANSWERS_VERDICT_H_
