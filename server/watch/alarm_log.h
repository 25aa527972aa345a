#ifndef CALIBD_SERVER_WATCH_ALARM_LOG_H_
#define CALIBD_SERVER_WATCH_ALARM_LOG_H_

#include <array>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "calibd/core/experts.h"
#include "calibd/store/v1/store.pb.h"
#include "server/watch/limit.h"
#include "server/watch/reference_watch.h"

namespace calibd::server {

// Names a group of observations with one value of the model's group tag.
struct GroupId {
  std::string value;
  // True for the group of all values without a group of their own.
  bool overflow = false;

  friend bool operator==(const GroupId&, const GroupId&) = default;
};

// The values of v1.Alarm.
struct Alarm {
  using Time = std::chrono::system_clock::time_point;
  // The numbers are those of v1.Alarm and of the store.
  enum class Kind { kEvidence = 1, kDrift = 2, kOverLimit = 3, kChanged = 4 };
  // Numbers of alarms by kind, in the order of the kinds.
  using Counts = std::array<std::int64_t, 4>;

  std::int64_t id = 0;
  Kind kind = Kind::kEvidence;
  // Time of the observations that raised the alarm: their own, or that of their row in the log, so
  // that a replay raises the same alarm.
  Time raise_time;
  // Number of the model's observation at which the threshold was reached, or of the last one of the
  // warm-up, whose observations are judged together.
  std::int64_t observation = 0;
  // log10 of the maximum that crossed the threshold.
  double log10_value = 0;
  double threshold = 0;
  std::optional<double> skce;
  std::optional<double> skce_lower_bound;
  double gap = 0;
  std::array<double, kFamilyCount> family_share{};
  // Set for kOverLimit, which sets neither log10_value nor threshold.
  std::optional<LimitCrossing> crossing;
  // Set for kChanged.
  std::optional<ReferenceFinding> finding;
  // Set for an alarm of a group.
  std::optional<GroupId> group;
  // The position of the label that the alarm names, of a model of several labels.
  std::optional<std::size_t> label;
  // Unset while the alarm is active.
  std::optional<Time> acknowledge_time;
  std::string note;
};

// Returns the first active alarm of this kind, or null.
[[nodiscard]] const Alarm* FindActiveIn(const std::vector<Alarm>& alarms,
                                        Alarm::Kind kind) noexcept;

// Returns the alarm of a limit that was crossed, without an id. group: null for the model.
[[nodiscard]] Alarm OverLimitAlarm(const LimitCrossing& crossing, const GroupId* group,
                                   Alarm::Time time);

// Returns the alarm of an error that has changed, without an id. threshold: log10 of the e-value.
[[nodiscard]] Alarm ChangedAlarm(const ReferenceSnapshot& reference, double threshold,
                                 Alarm::Time time);

// The alarms of a model and of its groups. Not thread-safe.
class AlarmLog {
 public:
  // Maximum number of alarms that are kept: the newest ones and all active ones.
  static constexpr std::size_t kMostAlarms = 100;

  // Ascending by id; never null. A change replaces the vector, because snapshots share it.
  [[nodiscard]] const std::shared_ptr<const std::vector<Alarm>>& alarms() const noexcept {
    return alarms_;
  }
  // Number of alarms raised so far.
  [[nodiscard]] const Alarm::Counts& raised() const noexcept { return raised_; }

  // Sets the id and adds the alarm. May throw bad_alloc.
  void Raise(Alarm alarm);
  // Marks an alarm as acknowledged and returns it; nothing if there is no such alarm, or if it was
  // acknowledged before. May throw bad_alloc.
  [[nodiscard]] std::optional<Alarm> Acknowledge(std::int64_t alarm_id, const std::string& note,
                                                 Alarm::Time time);

  void Save(store::v1::MonitorState& out) const;
  // Errors: InvalidArgument; this object is then unchanged.
  [[nodiscard]] absl::Status Restore(const store::v1::MonitorState& stored);

 private:
  std::shared_ptr<const std::vector<Alarm>> alarms_ = std::make_shared<std::vector<Alarm>>();
  Alarm::Counts raised_{};
};

}  // namespace calibd::server

#endif  // CALIBD_SERVER_WATCH_ALARM_LOG_H_
