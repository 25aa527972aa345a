#include "server/answers/verdict.h"

#include <algorithm>
#include <memory>
#include <optional>
#include <utility>

#include "calibd/core/e_bh.h"
#include "server/kinds/classes/evidence_watch.h"

namespace calibd::server {
namespace {

using Time = std::chrono::system_clock::time_point;

// The lower end and the estimate of the largest error of an event; larger if it is further off.
std::pair<double, double> SizeOf(const ErrorSnapshot& error) {
  std::pair<double, double> largest(-1, 0);
  for (const std::optional<ErrorInterval>& interval : error.Read().now) {
    if (interval.has_value()) {
      largest = std::max(largest, std::pair(interval->lower, interval->estimate));
    }
  }
  return largest;
}

void JudgeError(const MonitorSnapshot& monitor, Verdict& verdict) {
  bool active = false;
  bool recovered = true;
  const auto add_alarm = [&](const ErrorSnapshot& error) {
    if (!error.over) return;
    active = true;
    recovered = recovered && error.Read().recovered;
  };
  verdict.limit_status = ToProto(monitor.error.Read().status);
  verdict.is_recent = monitor.error.Read().is_recent;
  add_alarm(monitor.error);
  for (const std::shared_ptr<const GroupSnapshot>& group : monitor.groups) {
    if (group->error.Read().status != LimitStatus::kOverLimit) continue;
    add_alarm(group->error);
    verdict.limit_status = v1::CalibrationError::OVER_LIMIT;
    verdict.groups_over_limit.push_back(group.get());
  }
  std::ranges::stable_sort(verdict.groups_over_limit, IsFurtherOff);
  bool labels_within = true;
  for (std::size_t k = 0; k < monitor.labels.size(); ++k) {
    const LimitStatus status = monitor.labels[k].Read().status;
    labels_within = labels_within && status == LimitStatus::kWithinLimit;
    if (status != LimitStatus::kOverLimit) continue;
    add_alarm(monitor.labels[k]);
    verdict.limit_status = v1::CalibrationError::OVER_LIMIT;
    verdict.labels_over_limit.push_back(k);
  }
  std::ranges::stable_sort(verdict.labels_over_limit, [&](std::size_t a, std::size_t b) {
    return SizeOf(monitor.labels[a]) > SizeOf(monitor.labels[b]);
  });
  if (!labels_within && verdict.limit_status == v1::CalibrationError::WITHIN_LIMIT) {
    verdict.limit_status = v1::CalibrationError::UNDECIDED;
  }
  verdict.is_recovered = active && recovered;
  verdict.is_acknowledged = verdict.limit_status == v1::CalibrationError::OVER_LIMIT && !active;
}

std::vector<const GroupSnapshot*> RejectedGroups(const Monitoring& monitoring,
                                                 const MonitorSnapshot& monitor) {
  std::vector<const GroupSnapshot*> tested;
  std::vector<double> e_values;
  for (const std::shared_ptr<const GroupSnapshot>& group : monitor.groups) {
    if (!IsTested(monitoring, *group)) continue;
    tested.push_back(group.get());
    e_values.push_back(group->watch.reading.evidence.log10_e_value);
  }
  const std::vector<bool> rejected = RejectedByEbh(e_values, monitoring.significance_level);
  std::vector<const GroupSnapshot*> groups;
  for (std::size_t i = 0; i < tested.size(); ++i) {
    if (rejected[i]) groups.push_back(tested[i]);
  }
  std::ranges::stable_sort(groups, IsFurtherOff);
  return groups;
}

}  // namespace

Time LastCounted(const Model& model, const ModelSnapshot& snapshot) {
  return snapshot.monitor->last_counted_time.value_or(model.create_time());
}

bool IsStale(const Model& model, const ModelSnapshot& snapshot, Time now) {
  return snapshot.monitor.has_value() &&
         now >= LastCounted(model, snapshot) + snapshot.declaration->monitoring.stale_after;
}

bool IsTested(const Monitoring& monitoring, const GroupSnapshot& group) {
  return group.watch.reading.count >= monitoring.min_group_observations;
}

bool IsTested(const Monitoring& monitoring, const MonitorSnapshot& monitor) {
  // Rows of several labels may have no known truth.
  return monitor.watch.has_value() && monitor.watch->reading.count >= monitoring.min_observations &&
         monitor.error.Read().since_start[0].has_value();
}

bool IsFurtherOff(const GroupSnapshot* a, const GroupSnapshot* b) {
  return SizeOf(a->error) > SizeOf(b->error);
}

Verdict MakeVerdict(const Model& model, const ModelSnapshot& snapshot, Time now) {
  const Monitoring& monitoring = snapshot.declaration->monitoring;
  const MonitorSnapshot& monitor = *snapshot.monitor;
  Verdict verdict;
  JudgeError(monitor, verdict);
  verdict.stale = IsStale(model, snapshot, now);
  verdict.rejected_groups = RejectedGroups(monitoring, monitor);
  const bool enough = IsTested(monitoring, monitor);
  if ((verdict.alarm = monitor.FindActive(Alarm::Kind::kEvidence)) != nullptr) {
    verdict.status = v1::Verdict::MISCALIBRATED;
  } else if ((verdict.alarm = monitor.FindActive(Alarm::Kind::kDrift)) != nullptr) {
    verdict.status = v1::Verdict::DRIFTED;
  } else if (verdict.stale) {
    verdict.status = v1::Verdict::STALE;
  } else if (enough) {
    verdict.status = v1::Verdict::NOT_REJECTED;
  }
  if (enough) {
    const auto* const details = monitor.watch->As<ClassWatchDetails>();
    if (details != nullptr) verdict.rejected_classes = details->rejected_classes;
  }
  return verdict;
}

}  // namespace calibd::server
