#include "server/model/monitoring.h"

#include <algorithm>

#include "absl/strings/str_cat.h"
#include "server/base/errors.h"
#include "server/model/declared_duration.h"

namespace calibd::server {
namespace {

constexpr double kMinLevel = 1e-9;
constexpr double kMaxLevel = 0.25;
constexpr double kMinErrorLimit = 1e-4;
constexpr double kMaxErrorLimit = 0.5;
constexpr double kMinRunLength = 100;
constexpr double kMaxRunLength = 1e12;
constexpr std::chrono::seconds kMaxStaleAfter{std::chrono::hours{24 * 1000}};
constexpr std::int64_t kMostObservations = 1000000000;
constexpr std::size_t kMaxTagLength = 32;

class MonitoringChecker {
 public:
  MonitoringChecker(const v1::Monitoring& proto, std::vector<Violation>& violations)
      : proto_(proto), violations_(violations) {}

  Monitoring Check(std::chrono::microseconds label_grace, double error_limit) {
    monitoring_.disabled = proto_.disabled();
    if (monitoring_.disabled) {
      // The other fields have no meaning then. Without them, equal models have equal declarations.
      return monitoring_;
    }
    CheckReal("significance_level", proto_.significance_level(), kMinLevel, kMaxLevel,
              monitoring_.significance_level);
    CheckReal("average_run_length", proto_.average_run_length(), kMinRunLength, kMaxRunLength,
              monitoring_.average_run_length);
    CheckReal("tolerance", proto_.tolerance(), kMinTolerance, kMaxTolerance, monitoring_.tolerance);
    monitoring_.error_limit = error_limit;
    CheckReal("error_limit", proto_.error_limit(), kMinErrorLimit, kMaxErrorLimit,
              monitoring_.error_limit);
    CheckStaleAfter(label_grace);
    CheckCount("min_observations", proto_.min_observations(), kMostObservations,
               monitoring_.min_observations);
    CheckGroups();
    return monitoring_;
  }

 private:
  template <typename... Parts>
  void Violate(const char* field, const Parts&... parts) {
    if (violations_.size() < kMaxReportedViolations) {
      violations_.push_back({.field = absl::StrCat("model.monitoring.", field),
                             .description = absl::StrCat(parts...)});
    }
  }

  // 0 keeps the default.
  void CheckReal(const char* field, double value, double least, double most, double& out) {
    if (value == 0) return;
    // Written so that NaN fails the check too.
    if (!(value >= least && value <= most)) {
      Violate(field, "is ", value, ", expected ", least, "..", most);
      return;
    }
    out = value;
  }

  void CheckCount(const char* field, std::int64_t value, std::int64_t most, std::int64_t& out) {
    if (value == 0) return;
    if (value < 0 || value > most) {
      Violate(field, "is ", value, ", expected 1..", most);
      return;
    }
    out = value;
  }

  void CheckStaleAfter(std::chrono::microseconds label_grace) {
    if (!proto_.has_stale_after()) {
      monitoring_.stale_after = std::max(monitoring_.stale_after, 2 * label_grace);
      return;
    }
    const absl::StatusOr<std::chrono::microseconds> after =
        DeclaredDuration(proto_.stale_after(), kMaxStaleAfter);
    if (!after.ok()) {
      Violate("stale_after", after.status().message());
      return;
    }
    monitoring_.stale_after = *after;
  }

  void CheckGroups() {
    const std::string& tag = proto_.group_tag();
    if (tag.empty()) {
      if (proto_.max_groups() != 0) {
        Violate("max_groups", "is ", proto_.max_groups(), ", expected none without a group_tag");
      }
      if (proto_.min_group_observations() != 0) {
        Violate("min_group_observations", "is ", proto_.min_group_observations(),
                ", expected none without a group_tag");
      }
      return;
    }
    const auto is_letter = [](char c) { return c >= 'a' && c <= 'z'; };
    if (tag.size() > kMaxTagLength || !is_letter(tag[0]) ||
        !std::all_of(tag.begin(), tag.end(),
                     [&](char c) { return is_letter(c) || (c >= '0' && c <= '9') || c == '_'; })) {
      Violate("group_tag", "is ", Quoted(tag), ", expected ^[a-z][a-z0-9_]{0,", kMaxTagLength - 1,
              "}$");
    }
    monitoring_.group_tag = tag;
    std::int64_t groups = 0;
    CheckCount("max_groups", proto_.max_groups(), kMaxGroups, groups);
    monitoring_.max_groups = static_cast<std::size_t>(groups);
    monitoring_.min_group_observations = monitoring_.min_observations;
    CheckCount("min_group_observations", proto_.min_group_observations(), kMostObservations,
               monitoring_.min_group_observations);
  }

  const v1::Monitoring& proto_;
  std::vector<Violation>& violations_;
  Monitoring monitoring_;
};

}  // namespace

bool DeclaresAny(const v1::Monitoring& monitoring) { return monitoring.ByteSizeLong() > 0; }

Monitoring CheckMonitoring(const v1::Monitoring& monitoring, std::chrono::microseconds label_grace,
                           double error_limit, std::vector<Violation>& violations) {
  return MonitoringChecker(monitoring, violations).Check(label_grace, error_limit);
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
  if (!monitoring.group_tag.empty()) {
    proto.set_group_tag(monitoring.group_tag);
    proto.set_max_groups(static_cast<std::int32_t>(monitoring.max_groups));
    proto.set_min_group_observations(monitoring.min_group_observations);
  }
  return proto;
}

}  // namespace calibd::server
