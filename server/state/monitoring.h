#ifndef CALIBD_SERVER_STATE_MONITORING_H_
#define CALIBD_SERVER_STATE_MONITORING_H_

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "calibd/core/evidence.h"
#include "calibd/core/validation.h"
#include "calibd/v1/monitoring.pb.h"

namespace calibd::server {

// Settings of the watches and alarms of a model; see v1.Monitoring.
struct Monitoring {
  bool disabled = false;
  double significance_level = 0.05;
  double average_run_length = 1e6;
  double tolerance = kDefaultTolerance;
  std::chrono::microseconds stale_after = std::chrono::hours(24);
  std::int64_t min_observations = 100;
  // Empty: no groups; then the next two are 0.
  std::string group_tag;
  std::size_t max_groups = 0;
  std::int64_t min_group_observations = 0;

  friend bool operator==(const Monitoring&, const Monitoring&) = default;
};

inline constexpr std::size_t kMaxGroups = 64;
inline constexpr std::size_t kMaxGroupValueLength = 64;

// True if any field is declared. An empty message means the defaults, like a missing one.
[[nodiscard]] bool DeclaresAny(const v1::Monitoring& monitoring);

// Reads what was declared with the defaults filled in, but for max_groups, which is 0 where the
// default is to be taken: it depends on the memory. label_grace: of the model.
// violations: what is wrong is added, by fields below "model.monitoring."; the result is to be
// left alone then.
[[nodiscard]] Monitoring CheckMonitoring(const v1::Monitoring& monitoring,
                                         std::chrono::microseconds label_grace,
                                         std::vector<Violation>& violations);

// Most bytes that the watches of a model can hold; 0 when monitoring is disabled.
[[nodiscard]] std::size_t WatchMemory(const Monitoring& monitoring,
                                      std::size_t class_count) noexcept;

// As the API shows it.
[[nodiscard]] v1::Monitoring ToProto(const Monitoring& monitoring);

}  // namespace calibd::server

#endif  // CALIBD_SERVER_STATE_MONITORING_H_
