#ifndef CALIBD_SERVER_MODEL_MONITORING_H_
#define CALIBD_SERVER_MODEL_MONITORING_H_

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <string>

#include "calibd/core/error_interval.h"
#include "calibd/core/evidence.h"
#include "calibd/v1/monitoring.pb.h"

namespace calibd::server {

// Settings of the watches and alarms of a model; see v1.Monitoring.
struct Monitoring {
  bool disabled = false;
  double significance_level = 0.05;
  double average_run_length = 1e6;
  double tolerance = kDefaultTolerance;
  double error_limit = kDefaultErrorLimit;
  std::chrono::microseconds stale_after = std::chrono::hours(24);
  std::int64_t min_observations = 100;
  // Empty: no groups; the next two fields are 0 then.
  std::string group_tag;
  std::size_t max_groups = 0;
  std::int64_t min_group_observations = 0;
  // 0 without a reference.
  std::int64_t reference_rows = 0;

  friend bool operator==(const Monitoring&, const Monitoring&) = default;
};

inline constexpr std::size_t kMaxGroups = 64;
// The default error_limit of forecasts.
inline constexpr double kDefaultCoverageErrorLimit = 0.05;
inline constexpr std::size_t kMaxGroupValueLength = 64;

// True if any field is declared. An empty message means the defaults, like a missing one.
[[nodiscard]] bool DeclaresAny(const v1::Monitoring& monitoring);

// Converts declared settings that are valid by their rules, and fills in the defaults. Exception:
// max_groups is 0 if its default applies, because that depends on the memory. label_grace: of the
// model. error_limit: its default.
[[nodiscard]] Monitoring MonitoringOf(const v1::Monitoring& declared,
                                      std::chrono::microseconds label_grace, double error_limit);

// The part of a monitor that an update begins anew; each includes the ones before it.
enum class MonitorRestart { kNothing, kDrift, kEvidence };
[[nodiscard]] MonitorRestart RestartOf(const Monitoring& before, const Monitoring& after) noexcept;

// Converts the settings for the API.
[[nodiscard]] v1::Monitoring ToProto(const Monitoring& monitoring);

}  // namespace calibd::server

#endif  // CALIBD_SERVER_MODEL_MONITORING_H_
