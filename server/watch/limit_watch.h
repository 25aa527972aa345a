#ifndef CALIBD_SERVER_WATCH_LIMIT_WATCH_H_
#define CALIBD_SERVER_WATCH_LIMIT_WATCH_H_

#include <algorithm>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <memory>
#include <optional>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "calibd/core/newest_stretch.h"
#include "calibd/store/v1/store.pb.h"
#include "server/watch/limit.h"
#include "server/watch/state_fields.h"

namespace calibd::server {

struct LimitSettings {
  // In (0, 1).
  double error_limit = 0;
  // The number of observations before the first answer.
  std::int64_t min_observations = 0;
};

// How the sums of a measure compare with the limits.
struct LimitCheck {
  // The first series whose lower end exceeds the limit.
  std::optional<std::size_t> over;
  // Numbers of further observations before which no lower end can exceed the limit, and not all
  // upper ends can be within error_limit; <= 0 if they are. Valid unless `over`.
  double rows_to_over = std::numeric_limits<double>::infinity();
  double rows_to_within = 0;
};

// How far off a model, or one of its groups, is against a limit. It decides at each observation, so
// the answer does not depend on how a sequence is divided into batches. Not thread-safe.
//
// A Measure says how far off predictions of a kind are. It is a value that holds its settings and
// what it knows of the newest observations, its recent part:
// - Row: an observation. Sums: sums since an observation, with `first_observation` and an optional
//   `start_time`; NewSums(first_observation) makes empty ones.
// - Add(row, limit, since_start, sums, deviations): adds an observation to both sums, to the recent
//   part, and to the blocks of each event: by how much its stated probability exceeds the outcome.
// - Check(sums, count, limit, error_limit): compares the sums with the limits.
// - RecentOver(sums, count, limit, due, next_decision): the series whose recent error exceeds the
//   limit. due: `sums` were checked just now, and next_decision, the count of the next check, may
//   be lowered.
// - Interval(sums, series). Recent(sums, series, count, limit): the start of the stretch of the
//   recent error and, if it is known by how much that exceeds the limit, its interval. Unset
//   without a recent error.
// - Ends(sums, count, limit, recent): the largest lower end of the intervals, and the largest upper
//   end of the intervals and, if `recent`, of the stretches; unset without observations.
// - is_model(): false for a group and a single label, of which no interval is kept after an
//   acknowledgement. event_count(): the number of events whose changes are dated; 0 for a group.
// - KeepMark(sums, count, observation, over, next_decision): called after each observation; over:
//   an alarm is active. SetTime(time, count): called after each row of the log. Restart(): forgets
//   the recent part. LimitChanged(raised).
// - Snapshot(since_start, sums, count): the sums for readers.
// - SumsFields(fields, sums), Fields(fields, sums): list the fields of sums, and of the recent part
//   in store.v1.ErrorState beside the watch's sums, see StateFields.
template <typename Measure>
class LimitWatch {
 public:
  using Time = std::chrono::system_clock::time_point;
  using Row = typename Measure::Row;
  using Sums = typename Measure::Sums;

  // measure: without observations. first_observation: of the model, from 1.
  LimitWatch(Measure measure, const LimitSettings& settings, std::int64_t first_observation)
      : measure_(std::move(measure)),
        settings_(settings),
        since_start_(measure_.NewSums(first_observation)),
        sums_(since_start_),
        deviations_(measure_.event_count()) {}

  // Adds a row. observation: its number within the model. May throw bad_alloc.
  void Add(const Row& row, std::int64_t observation) {
    ++count_;
    recovery_.reset();
    for (EventDeviations& event : deviations_) {
      if (event.first_observation == 0) event.first_observation = observation;
    }
    measure_.Add(row, limit(), since_start_, sums_, deviations_);
    Decide(observation);
    measure_.KeepMark(sums_, count_, observation, over_, next_decision_);
  }
  // Sets the times that are missing because they begin with the newest log row.
  void SetTime(Time time) {
    const bool started = count_ > 0 || sums_.first_observation != since_start_.first_observation;
    if (!since_start_.start_time.has_value() && started) since_start_.start_time = time;
    if (!sums_.start_time.has_value() && count_ > 0) sums_.start_time = time;
    measure_.SetTime(time, count_);
  }
  // Begins anew with the settings of an empty watch, like after an acknowledgement. Alarms and
  // acknowledgements stay, and the sums since the start continue: they say how far off the
  // observations before were.
  void Restart(LimitWatch empty) {
    ChangeLimit(empty.settings_.error_limit);
    empty.since_start_ = since_start_;
    empty.over_ = over_;
    empty.over_recent_ = over_recent_;
    empty.over_at_ = 0;
    empty.has_alarm_ = has_alarm_;
    empty.acknowledged_limit_ = acknowledged_limit_;
    empty.acknowledged_lower_ = acknowledged_lower_;
    *this = std::move(empty);
  }
  // Sets error_limit, and decides again. An alarm stays active, but an error that is not shown to
  // exceed a higher limit is no longer over: a person has decided to accept it. An error about
  // which too little is known, because an alarm of the recent error came before there was an
  // interval of the newest observations, stays over until it has recovered or is acknowledged. A
  // higher limit also restarts a recent error whose evidence was collected against the lower one;
  // the sums continue.
  void SetLimit(double error_limit, std::int64_t observation) {
    const double former = limit();
    ChangeLimit(error_limit);
    measure_.LimitChanged(limit() > former);
    next_decision_ = 0;
    Decide(observation);
  }

  // The crossing for which no alarm was raised yet. Call it once after each log row.
  [[nodiscard]] std::optional<LimitCrossing> TakeCrossing() noexcept {
    return std::exchange(crossing_, std::nullopt);
  }
  // Restarts the sums and the recent error after `observations` of the model. The same error then
  // crosses no limit: until the error was within error_limit, the limit is at least the upper end
  // of the interval and of the stretch. An error that has recovered was within error_limit. One
  // that is not over, because error_limit was raised, continues.
  void Acknowledge(std::int64_t observations) {
    has_alarm_ = false;
    if (!over_) return;
    const ErrorSnapshot snapshot = Snapshot();
    if (const ErrorReading& reading = snapshot.Read(); reading.recovered) {
      ForgetAcknowledged();
      if (measure_.is_model()) recovery_ = std::make_shared<const ErrorStretch>(*reading.newest);
    } else {
      const std::optional<ErrorEnds> ends = measure_.Ends(sums_, count_, limit(), over_recent_);
      acknowledged_lower_ =
          std::max(over_recent_ ? limit() : 0, ends.has_value() ? ends->lower : 0);
      acknowledged_limit_ = std::max(settings_.error_limit, ends.has_value() ? ends->upper : 0);
    }
    over_ = false;
    over_at_ = 0;
    over_recent_ = false;
    sums_ = measure_.NewSums(observations + 1);
    measure_.Restart();
    count_ = 0;
    next_decision_ = 0;
  }

  [[nodiscard]] ErrorSnapshot Snapshot() const {
    return {.limit = limit(),
            .error_limit = settings_.error_limit,
            .acknowledged = acknowledged_limit_.has_value(),
            .over = over_,
            .over_recent = over_recent_,
            .over_at = over_at_,
            .min_observations = settings_.min_observations,
            .count = count_,
            .first_observation = sums_.first_observation,
            .start_observation = since_start_.first_observation,
            .recovery = recovery_,
            .measured = measure_.Snapshot(since_start_, sums_, count_),
            .deviations = deviations_};
  }
  [[nodiscard]] std::int64_t count() const noexcept { return count_; }

  void Save(store::v1::ErrorState& out) const { SaveFields(*this, out, &LimitWatch::Fields); }
  // Restores a saved state. Errors: InvalidArgument; this object must not be used then.
  [[nodiscard]] absl::Status Restore(const store::v1::ErrorState& stored) {
    return RestoreFields(stored, *this, &LimitWatch::Fields);
  }

 private:
  static void Fields(StateFields& fields, LimitWatch& watch) {
    using Stored = store::v1::ErrorState;
    const auto sums_fields = [&watch](StateFields& inner, Sums& sums) {
      watch.measure_.SumsFields(inner, sums);
    };
    fields(Stored::kSinceStartFieldNumber, watch.since_start_, sums_fields);
    fields(Stored::kSumsFieldNumber, watch.sums_, sums_fields);
    watch.count_ = Measure::Count(watch.sums_);
    watch.measure_.Fields(fields, watch.sums_);
    fields(Stored::kAcknowledgedLimitFieldNumber, watch.acknowledged_limit_);
    fields(Stored::kAcknowledgedLowerFieldNumber, watch.acknowledged_lower_);
    fields(Stored::kOverFieldNumber, watch.over_);
    bool is_accepted = watch.has_alarm_ && !watch.over_;
    fields(Stored::kIsAlarmAcceptedFieldNumber, is_accepted);
    fields.Require(!watch.over_ || !is_accepted, "has an alarm of the error that cannot be");
    watch.has_alarm_ = watch.over_ || is_accepted;
    fields(Stored::kOverRecentFieldNumber, watch.over_recent_);
    std::optional<std::int64_t> over_at;
    if (watch.over_) over_at = watch.over_at_;
    fields(Stored::kOverAtFieldNumber, over_at);
    // A state that does not say when the alarm was raised recovers after it was saved.
    watch.over_at_ = watch.over_ ? over_at.value_or(watch.count_) : 0;
    fields.Require(watch.over_at_ <= watch.count_, "has an alarm of the error that cannot be");
    fields(Stored::kNextDecisionFieldNumber, watch.next_decision_);
    std::optional<ErrorStretch> recovery;
    if (watch.recovery_ != nullptr) recovery = *watch.recovery_;
    fields(Stored::kRecoveryFieldNumber, recovery, RecoveryFields);
    fields.Require(!recovery.has_value() || watch.count_ == 0,
                   "has a recovery of the error that cannot be");
    watch.recovery_ =
        recovery.has_value() ? std::make_shared<const ErrorStretch>(*recovery) : nullptr;
    std::vector<EventDeviations> deviations = watch.deviations_;
    fields.Each(Stored::kDeviationsFieldNumber, deviations, DeviationFields);
    // A state without them dates the changes that come.
    if (deviations.empty()) deviations.resize(watch.deviations_.size());
    fields.Require(deviations.size() == watch.deviations_.size(),
                   "has deviations of the error that cannot be");
    watch.deviations_ = std::move(deviations);
  }

  [[nodiscard]] double limit() const noexcept {
    return std::max(settings_.error_limit, acknowledged_limit_.value_or(0));
  }

  void ForgetAcknowledged() noexcept {
    acknowledged_limit_.reset();
    acknowledged_lower_.reset();
  }

  // Sets error_limit. If it is higher, an error is over only if it is shown to exceed it, on
  // average or in the newest observations, or if an alarm is active and too few observations have
  // come to say.
  void ChangeLimit(double error_limit) {
    const bool is_raised = error_limit > settings_.error_limit;
    settings_.error_limit = error_limit;
    if (!is_raised) return;
    const std::optional<ErrorEnds> all = measure_.Ends(sums_, count_, limit(), /*recent=*/false);
    const double lower =
        std::max(acknowledged_lower_.value_or(0), all.has_value() ? all->lower : 0);
    if (lower > error_limit || (over_ && StaysOver(all, error_limit))) return;
    ForgetAcknowledged();
    over_ = false;
    over_at_ = 0;
    over_recent_ = false;
  }

  // Whether an active alarm stays against a higher limit, which the average does not exceed: the
  // newest observations, or those of the recent error, are shown to exceed it, or too little is
  // known about them. all: the ends of all observations.
  [[nodiscard]] bool StaysOver(const std::optional<ErrorEnds>& all, double error_limit) const {
    const auto is_over = [error_limit](const std::optional<ErrorInterval>& interval) {
      return interval.has_value() && interval->lower > error_limit;
    };
    // The sums began anew, and nothing has come since.
    if (!all.has_value()) return true;
    const ErrorSnapshot snapshot = Snapshot();
    const std::optional<ErrorStretch>& newest = snapshot.Read().newest;
    if (newest.has_value() && std::ranges::any_of(newest->intervals, is_over)) return true;
    if (!over_recent_) return false;
    const std::optional<ErrorStretch> recent = measure_.Recent(sums_, 0, count_, limit());
    if (recent.has_value() && recent->intervals[0].has_value()) {
      return is_over(recent->intervals[0]);
    }
    // The evidence says that some newest observations were over the former limit, but not by how
    // much. Before there is an interval of the newest ones, only that of all observations can show
    // that the higher limit contains them.
    return !newest.has_value() && all->upper > error_limit;
  }

  void Decide(std::int64_t observation) {
    if ((over_ && !over_recent_) || count_ < settings_.min_observations) return;
    const bool due = count_ >= next_decision_;
    if (due) {
      const LimitCheck check = measure_.Check(sums_, count_, limit(), settings_.error_limit);
      if (check.over.has_value()) {
        over_recent_ = false;
        return over_ ? void() : Cross(observation, false, *check.over);
      }
      if (acknowledged_limit_.has_value() && check.rows_to_within <= 0) {
        ForgetAcknowledged();
        return Decide(observation);
      }
      const double rows = acknowledged_limit_.has_value()
                              ? std::min(check.rows_to_over, check.rows_to_within)
                              : check.rows_to_over;
      next_decision_ = count_ + std::max<std::int64_t>(1, static_cast<std::int64_t>(rows));
    }
    if (over_) return;
    const std::optional<std::size_t> recent =
        measure_.RecentOver(sums_, count_, limit(), due, next_decision_);
    if (recent.has_value()) Cross(observation, true, *recent);
  }

  void Cross(std::int64_t observation, bool recent, std::size_t series) {
    over_ = true;
    over_recent_ = recent;
    over_at_ = count_;
    // The alarm that was raised against a lower limit is still active.
    if (std::exchange(has_alarm_, true)) return;
    crossing_ = {.observation = observation,
                 .recent = recent,
                 .limit = limit(),
                 .series = series,
                 .interval = measure_.Interval(sums_, series),
                 .first_observation = sums_.first_observation};
    if (!recent) return;
    const ErrorStretch stretch = *measure_.Recent(sums_, series, count_, limit());
    crossing_->interval = stretch.intervals[0];
    crossing_->first_observation = stretch.first_observation;
  }

  Measure measure_;
  LimitSettings settings_;
  Sums since_start_;
  // Since the last acknowledgement of an error over the limit, or the last Restart; equal to
  // since_start_ before it.
  Sums sums_;
  // Since the start: an acknowledgement changes nothing of when the error changed.
  std::vector<EventDeviations> deviations_;
  // Number of observations in sums_.
  std::int64_t count_ = 0;
  // See ErrorSnapshot::recovery.
  std::shared_ptr<const ErrorStretch> recovery_;
  // Set until the error is within error_limit, or error_limit is raised above the error.
  std::optional<double> acknowledged_limit_;
  // By how much the predictions were at least off at the acknowledgement; set with
  // acknowledged_limit_.
  std::optional<double> acknowledged_lower_;
  // True from a crossing until it is acknowledged, or error_limit is raised above the error.
  bool over_ = false;
  bool over_recent_ = false;
  // count_ at the crossing while over_; 0 if the sums began after it.
  std::int64_t over_at_ = 0;
  // True from a crossing until it is acknowledged.
  bool has_alarm_ = false;
  std::optional<LimitCrossing> crossing_;
  // The count before which no end of an interval can reach a limit.
  std::int64_t next_decision_ = 0;
};

}  // namespace calibd::server

#endif  // CALIBD_SERVER_WATCH_LIMIT_WATCH_H_
