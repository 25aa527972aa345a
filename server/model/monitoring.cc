#include "server/model/monitoring.h"

#include <algorithm>

#include "server/model/declared_duration.h"

namespace calibd::server {
bool DeclaresAny(const v1::Monitoring& monitoring) { return monitoring.ByteSizeLong() > 0; }

Monitoring MonitoringOf(const v1::Monitoring& declared, std::chrono::microseconds label_grace,
                        double error_limit) {
  Monitoring monitoring;
  monitoring.disabled = declared.disabled();
  // The other fields have no meaning then. Without them, equal models have equal declarations.
  if (monitoring.disabled) return monitoring;
  // 0 means the default.
  const auto take = [](auto value, auto& out) {
    if (value != 0) out = value;
  };
  monitoring.error_limit = error_limit;
  take(declared.significance_level(), monitoring.significance_level);
  take(declared.average_run_length(), monitoring.average_run_length);
  take(declared.tolerance(), monitoring.tolerance);
  take(declared.error_limit(), monitoring.error_limit);
  take(declared.min_observations(), monitoring.min_observations);
  take(declared.reference_rows(), monitoring.reference_rows);
  monitoring.stale_after = declared.has_stale_after()
                               ? MicrosecondsOf(declared.stale_after())
                               : std::max(monitoring.stale_after, 2 * label_grace);
  if (declared.group_tag().empty()) return monitoring;
  monitoring.group_tag = declared.group_tag();
  monitoring.max_groups = static_cast<std::size_t>(declared.max_groups());
  monitoring.min_group_observations = monitoring.min_observations;
  take(declared.min_group_observations(), monitoring.min_group_observations);
  return monitoring;
}

MonitorRestart RestartOf(const Monitoring& before, const Monitoring& after) noexcept {
  if (before.tolerance != after.tolerance ||
      before.significance_level != after.significance_level) {
    return MonitorRestart::kEvidence;
  }
  return before.average_run_length != after.average_run_length ? MonitorRestart::kDrift
                                                               : MonitorRestart::kNothing;
}

v1::Monitoring ToProto(const Monitoring& monitoring) {
  v1::Monitoring proto;
  if (monitoring.disabled) {
    proto.set_disabled(true);
    return proto;
  }
  proto.set_significance_level(monitoring.significance_level);
  proto.set_average_run_length(monitoring.average_run_length);
  proto.set_tolerance(monitoring.tolerance);
  proto.set_error_limit(monitoring.error_limit);
  const auto seconds = std::chrono::duration_cast<std::chrono::seconds>(monitoring.stale_after);
  proto.mutable_stale_after()->set_seconds(seconds.count());
  proto.mutable_stale_after()->set_nanos(static_cast<std::int32_t>(
      std::chrono::nanoseconds(monitoring.stale_after - seconds).count()));
  proto.set_min_observations(monitoring.min_observations);
  proto.set_reference_rows(monitoring.reference_rows);
  if (!monitoring.group_tag.empty()) {
    proto.set_group_tag(monitoring.group_tag);
    proto.set_max_groups(static_cast<std::int32_t>(monitoring.max_groups));
    proto.set_min_group_observations(monitoring.min_group_observations);
  }
  return proto;
}

}  // namespace calibd::server
