#include "server/watch/monitor_snapshot.h"

#include <algorithm>
#include <cmath>

namespace calibd::server {

const Alarm* MonitorSnapshot::FindAlarm(std::int64_t id) const noexcept {
  const auto found = std::find_if(alarms->begin(), alarms->end(),
                                  [id](const Alarm& alarm) { return alarm.id == id; });
  return found == alarms->end() ? nullptr : &*found;
}

const Alarm* MonitorSnapshot::FindActive(Alarm::Kind kind) const noexcept {
  return FindActiveIn(*alarms, kind);
}

double EvidenceThreshold(double significance_level) noexcept {
  return -std::log10(significance_level);
}

}  // namespace calibd::server
