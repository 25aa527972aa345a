#ifndef CALIBD_SERVER_WATCH_LIMIT_H_
#define CALIBD_SERVER_WATCH_LIMIT_H_

#include <array>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <mutex>
#include <optional>
#include <vector>

#include "calibd/core/dated_change.h"
#include "calibd/core/error_interval.h"
#include "calibd/core/rows_until_decided.h"
#include "calibd/v1/monitoring.pb.h"
#include "server/watch/state_fields.h"

namespace calibd::server {

// The answer to "how far off", against a limit.
enum class LimitStatus { kUndecided, kWithinLimit, kOverLimit };
[[nodiscard]] v1::CalibrationError::Status ToProto(LimitStatus status) noexcept;

// The observation at which a watch exceeded its limit, with the values at this observation.
struct LimitCrossing {
  // Number within the model.
  std::int64_t observation = 0;
  // True if the recent error exceeded the limit, false if the interval did.
  bool recent = false;
  double limit = 0;
  // The series of sums that exceeded it, counted from 0.
  std::size_t series = 0;
  // The interval that exceeded it. Unset for the recent error of classes, whose evidence says that
  // some stretch is over the limit, but not by how much.
  std::optional<ErrorInterval> interval;
  // The first observation of the interval; for the recent error, of the stretch that exceeds the
  // limit most clearly, which is chosen in hindsight.
  std::int64_t first_observation = 1;
};

// A stretch of newest observations.
struct ErrorStretch {
  using Time = std::chrono::system_clock::time_point;

  // Number of the observations before it since the sums began.
  std::int64_t start = 0;
  std::int64_t first_observation = 1;
  std::optional<Time> start_time;
  std::int64_t observations = 0;
  // Of the first two series.
  std::array<std::optional<ErrorInterval>, 2> intervals;
};

// What the sums of a watch say.
struct ErrorReading {
  LimitStatus status = LimitStatus::kUndecided;
  // True if only the recent error exceeds the limit.
  bool is_recent = false;
  // The intervals of the first two series; unset without observations.
  std::array<std::optional<ErrorInterval>, 2> since_start;
  std::array<std::optional<ErrorInterval>, 2> now;
  // The newest observations, see calibd/core/newest_stretch.h. If an active alarm has recovered:
  // those since the error is within error_limit again. Otherwise unset for groups and single
  // labels, and with fewer than 1000 observations.
  std::optional<ErrorStretch> newest;
  // True if the error exceeded the limit, no one has acknowledged it, and it is shown to be within
  // error_limit again.
  bool recovered = false;
};

struct ErrorSnapshot;

// The sums of a watch at one moment, of a kind of predictions.
class MeasuredError {
 public:
  MeasuredError() = default;
  MeasuredError(const MeasuredError&) = default;
  MeasuredError& operator=(const MeasuredError&) = default;
  virtual ~MeasuredError() = default;

  // error: the snapshot that has these sums.
  [[nodiscard]] virtual ErrorReading Read(const ErrorSnapshot& error) const = 0;
  // See ErrorSnapshot::OverAgainSince. error: of an active alarm that has not recovered.
  [[nodiscard]] virtual std::optional<std::int64_t> OverAgainSince(
      const ErrorSnapshot& error) const = 0;
  // Number of rows since the start.
  [[nodiscard]] virtual std::int64_t count_since_start() const noexcept = 0;
  // The events of the two series, as metrics name them, such as "top_label" and "class_1". The
  // second one is empty if there is no second series.
  using Events = std::array<const char*, 2>;
  [[nodiscard]] virtual const Events& events() const noexcept = 0;
  // Writes since_start, since_acknowledgement if it is another stretch, the newest observations,
  // and the evidence of the recent error. reading: of the snapshot.
  virtual void Describe(const ErrorSnapshot& error, const ErrorReading& reading,
                        v1::CalibrationError& out) const = 0;
  // The number of further rows after which an undecided error is expected to be decided; unset if
  // the sums do not tell.
  [[nodiscard]] virtual std::optional<RowsUntilDecided> Foresee(
      const ErrorSnapshot& /*error*/) const {
    return std::nullopt;
  }
  // False if the deviations of its events do not tell that the error changed.
  [[nodiscard]] virtual bool dates_changes() const noexcept { return true; }
  // Writes the intervals of a stretch of which nothing else is known.
  virtual void DescribeIntervals(const ErrorStretch& stretch, v1::ErrorMeasurement& out) const = 0;
  // Writes the event whose deviations a watch keeps in this place.
  virtual void DescribeEvent(std::size_t place, v1::DatedChange& out) const = 0;
};

// The deviations of an event since an observation, which date its changes.
struct EventDeviations {
  // Its number within the model, from 1; 0 without observations.
  std::int64_t first_observation = 0;
  DeviationBlocks blocks;
};
void DeviationFields(StateFields& fields, EventDeviations& deviations);

// The fields of a stretch of which the intervals alone are known, without its `start`.
void RecoveryFields(StateFields& fields, ErrorStretch& stretch);

// The newest changes of the events that can be shown. The intervals of all events hold together
// with 95 %.
[[nodiscard]] std::vector<EventChange> FindChanges(const std::vector<EventDeviations>& deviations);
// Maximum number of bytes of the deviations of an event, with those of two snapshots.
inline constexpr std::size_t kDeviationMemory =
    3 * (sizeof(EventDeviations) + DeviationBlocks::kMaxBlocks * sizeof(DeviationBlocks::Sums));

// The state of a LimitWatch at one moment.
struct ErrorSnapshot {
  using Time = std::chrono::system_clock::time_point;

  // The limit in force. It exceeds error_limit after an acknowledgement, until the error is within
  // error_limit.
  double limit = 0;
  double error_limit = 0;
  bool acknowledged = false;
  // True from a crossing until it is acknowledged, or error_limit is raised above the error.
  bool over = false;
  bool over_recent = false;
  // The count at the crossing; 0 if the sums began later.
  std::int64_t over_at = 0;
  // The number of observations before the first answer.
  std::int64_t min_observations = 0;
  // Number of observations since the last acknowledgement of an error over the limit or the last
  // change of its significance level, and their first one within the model.
  std::int64_t count = 0;
  std::int64_t first_observation = 1;
  // The first observation of the model or the group.
  std::int64_t start_observation = 1;
  // The stretch since which an error had recovered, when its alarm was acknowledged; null unless no
  // observation has followed. It is then the newest stretch.
  std::shared_ptr<const ErrorStretch> recovery;
  // Never null.
  std::shared_ptr<const MeasuredError> measured;
  // One for each event; empty for a group and a single label.
  std::vector<EventDeviations> deviations;

  // Returns the sums if they are of this kind, otherwise null.
  template <typename Measured>
  [[nodiscard]] const Measured* As() const noexcept {
    return dynamic_cast<const Measured*>(measured.get());
  }

  // The first call for a snapshot and its copies computes it, in some ten microseconds, or some
  // hundred while an alarm is active. A snapshot is published for each batch, but few are read.
  [[nodiscard]] const ErrorReading& Read() const {
    std::call_once(memo->once, [this] {
      memo->reading = measured->Read(*this);
      if (recovery != nullptr) memo->reading.newest = *recovery;
    });
    return memo->reading;
  }

  // While an active alarm that had recovered is over the limit again: the first observation within
  // the model of those that are, see calibd::OverAgainSince. Unset while this is one of the rows
  // before the named change whose error was not shown to be over the limit: a stretch that begins
  // there is over it because of later rows. The first call computes it, from some hundred
  // intervals: only an answer that shows it needs it.
  [[nodiscard]] std::optional<std::int64_t> OverAgainSince() const;

  // The number of further rows after which an undecided error of a model is expected to be decided.
  // The first call computes it, in some milliseconds: only an answer about one model needs it.
  [[nodiscard]] std::optional<RowsUntilDecided> Foresee() const {
    if (Read().status != LimitStatus::kUndecided) return std::nullopt;
    std::call_once(memo->foreseen_once, [this] { memo->foreseen = measured->Foresee(*this); });
    return memo->foreseen;
  }

  // The newest change of each event of a model whose error has changed; empty if its measure dates
  // none. The first call computes them, in some 0.2 ms for each event.
  [[nodiscard]] const std::vector<EventChange>& Changes() const {
    std::call_once(memo->changes_once, [this] {
      if (measured->dates_changes()) memo->changes = FindChanges(deviations);
    });
    return memo->changes;
  }
  // The one of Changes() with the largest difference, which answers name; null without a change.
  [[nodiscard]] const EventChange* NamedChange() const;
  // The last observation of the range of the named change, numbered within the model; 0 without
  // one.
  [[nodiscard]] std::int64_t ChangedUntil() const;

  // What Read, OverAgainSince, Foresee and Changes returned.
  struct Memo {
    std::once_flag once;
    ErrorReading reading;
    std::once_flag over_again_once;
    std::optional<std::int64_t> over_again_since;
    std::once_flag foreseen_once;
    std::optional<RowsUntilDecided> foreseen;
    std::once_flag changes_once;
    std::vector<EventChange> changes;
  };
  std::shared_ptr<Memo> memo = std::make_shared<Memo>();
};

// Since which start an error whose alarm is active is within error_limit again, see
// calibd/core/newest_stretch.h. The rows before a dated change say nothing about those after it, so
// no recovery begins before the end of its range. find(observation): the RecoveredSince of the
// starts whose stretches begin after this observation of the model.
template <typename Find>
[[nodiscard]] std::optional<std::int64_t> RecoveredAfterChange(const ErrorSnapshot& error,
                                                               const Find& find) {
  const std::optional<std::int64_t> start = find(std::int64_t{0});
  if (!start.has_value()) return start;
  // Only a recovery needs the change, which takes longer to find.
  const std::int64_t changed_until = error.ChangedUntil();
  return changed_until == 0 ? start : find(changed_until);
}

// A watch keeps its sums at marks, equally many observations apart: at the newest ones, and at
// fewer of the older ones, two for each power of two of their age. Returns whether it keeps mark
// `index` when `newest` is the newest one; both are numbered from 1. What is once dropped is never
// kept.
[[nodiscard]] bool KeepsMark(std::int64_t index, std::int64_t newest) noexcept;
// Maximum number of marks that are kept together.
inline constexpr std::size_t kMostMarks = 8 + std::size_t{2} * 43;

}  // namespace calibd::server

#endif  // CALIBD_SERVER_WATCH_LIMIT_H_
