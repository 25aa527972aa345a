#ifndef CALIBD_SERVER_WATCH_ERROR_WATCH_H_
#define CALIBD_SERVER_WATCH_ERROR_WATCH_H_

#include <array>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <mutex>
#include <optional>
#include <vector>

#include "absl/status/status.h"
#include "calibd/core/error_interval.h"
#include "calibd/core/prediction_batch.h"
#include "calibd/core/running_reliability.h"
#include "calibd/store/v1/store.pb.h"

namespace calibd::server {

// The probabilities with which the answers of an error watch may ever be wrong. The event of a
// series of sums is "the top label is right", and for two classes also "the label is class 1".
struct ErrorBudget {
  // Of each series.
  ErrorLevels levels;
  // Of the recent error of each series; 0: no recent error.
  double recent = 0;
  // 1, or 2 for two classes.
  std::size_t series = 1;

  // The budget of a model whose answers may be wrong with probability alpha.
  [[nodiscard]] static ErrorBudget OfModel(double alpha, std::size_t class_count) noexcept;
  // The same for one group of at most `groups` groups, which has no recent error.
  [[nodiscard]] static ErrorBudget OfGroup(double alpha, std::size_t groups,
                                           std::size_t class_count) noexcept;
};

// Sums over the observations of one series, or of two.
using ErrorSeries = std::array<ReliabilitySums, 2>;

// Sums since an observation.
struct ErrorSums {
  using Time = std::chrono::system_clock::time_point;

  // Its number within the model, from 1.
  std::int64_t first_observation = 1;
  // Time of the log row with this observation; unset before it.
  std::optional<Time> start_time;
  ErrorSeries series{};

  [[nodiscard]] std::int64_t count() const noexcept { return series[0].Total().count; }
};

// The answer to "how far off", against a limit.
enum class LimitStatus { kUndecided, kWithinLimit, kOverLimit };

// The observation at which a watch exceeded its limit, with the values at this observation.
struct LimitCrossing {
  // Number within the model.
  std::int64_t observation = 0;
  // True if the recent error exceeded the limit, false if the interval did.
  bool recent = false;
  double limit = 0;
  // The series that exceeded it: 0 or 1.
  std::size_t series = 0;
  // Of the interval, or for the recent error of the stretch in which it was largest; the latter is
  // an estimate that was chosen in hindsight.
  ErrorInterval interval;
  // The first observation of the interval or the stretch.
  std::int64_t first_observation = 1;
};

// The stretch of newest observations, beginning at a mark or with the sums, whose error exceeds the
// limit most clearly; unset without observations. For display: its start was chosen in hindsight.
struct ErrorStretch {
  std::int64_t first_observation = 1;
  std::optional<ErrorSums::Time> start_time;
  std::int64_t observations = 0;
  ErrorInterval interval;
};
[[nodiscard]] std::optional<ErrorStretch> WorstStretch(const ErrorSums& sums,
                                                       const std::vector<ErrorSums>& marks,
                                                       std::size_t series,
                                                       const ErrorLevels& levels,
                                                       double limit) noexcept;

// A watch keeps its sums at marks, equally many observations apart: at the newest ones, and at
// fewer of the older ones, two for each power of two of their age. Returns whether it keeps mark
// `index` when `newest` is the newest one; both are numbered from 1. What is once dropped is never
// kept.
[[nodiscard]] bool KeepsMark(std::int64_t index, std::int64_t newest) noexcept;
// Maximum number of marks that are kept together.
inline constexpr std::size_t kMostMarks = 8 + std::size_t{2} * 43;

// What the sums of a watch say.
struct ErrorReading {
  LimitStatus status = LimitStatus::kUndecided;
  // True if only the recent error exceeds the limit.
  bool is_recent = false;
  // The intervals of each series; unset without observations.
  std::array<std::optional<ErrorInterval>, 2> since_start;
  std::array<std::optional<ErrorInterval>, 2> now;
  // The worst stretch of the series whose recent error is larger; see WorstStretch.
  std::optional<ErrorStretch> stretch;
  // While undecided: the smallest number of further observations after which the answer is
  // expected; unset if the present sums do not tell.
  std::optional<std::int64_t> observations_needed;
};

struct CoverageSnapshot;

// The state of an error watch, or of a CoverageWatch, at one moment.
struct ErrorSnapshot {
  ErrorBudget budget;
  ErrorSums since_start;
  // Since the last acknowledgement of an error over the limit; equal to since_start before it.
  ErrorSums sums;
  // The limit in force. It exceeds error_limit after an acknowledgement, until the error is within
  // error_limit.
  double limit = 0;
  double error_limit = 0;
  bool acknowledged = false;
  // True from a crossing until it is acknowledged.
  bool over = false;
  bool over_recent = false;
  // The number of observations before the first answer.
  std::int64_t min_observations = 0;
  // log10 of the e-value of the recent error, the larger one of two series, and its threshold;
  // unset while the e-value is 0.
  std::optional<double> recent_log10_e_value{};
  std::size_t recent_series = 0;
  double recent_threshold = 0;
  // The sums at some earlier observations, ascending; see ErrorWatch. Never null.
  std::shared_ptr<const std::vector<ErrorSums>> marks;
  // Set for forecasts: their counts. The series of the sums above are empty then.
  std::shared_ptr<const CoverageSnapshot> coverage = nullptr;

  // Number of observations in `sums`.
  [[nodiscard]] std::int64_t count() const noexcept;

  // The first call for a snapshot and its copies computes it, in some ten microseconds. A snapshot
  // is published for each batch, but few are read.
  [[nodiscard]] const ErrorReading& Read() const;

  // What Read returned.
  struct Memo {
    std::once_flag once;
    ErrorReading reading;
  };
  std::shared_ptr<Memo> memo = std::make_shared<Memo>();
};

// How far off a model, or one of its groups, is against a limit: see error_interval.h. It decides
// at each observation, so the answer does not depend on how a sequence is divided into batches.
// Not thread-safe.
class ErrorWatch {
 public:
  using Time = ErrorSums::Time;

  // error_limit: in (0, 1). min_observations: the number of observations before the first answer.
  // first_observation: of the model, from 1.
  ErrorWatch(const ErrorBudget& budget, double error_limit, std::int64_t min_observations,
             std::int64_t first_observation);

  // Adds a row of a batch. observation: its number within the model. May throw bad_alloc.
  void AddRow(const PredictionBatch& batch, std::size_t row, std::int64_t observation);
  // Sets the times that are missing because they begin with the newest log row.
  void SetTime(Time time);
  // Begins anew with the budget and the settings of an empty watch. Alarms and acknowledgements
  // stay.
  void Restart(ErrorWatch empty);
  // Sets error_limit, and decides again. A higher limit restarts the recent error, whose evidence
  // was collected against the lower one; the sums continue.
  void SetLimit(double error_limit, std::int64_t observation);

  // The crossing for which no alarm was raised yet. Call it once after each log row.
  [[nodiscard]] std::optional<LimitCrossing> TakeCrossing() noexcept;
  // Restarts the sums and the recent error after `observations` of the model. The same error then
  // crosses no limit: until the error was within error_limit, the limit is at least the upper end
  // of the interval and of the stretch.
  void Acknowledge(std::int64_t observations);

  [[nodiscard]] ErrorSnapshot Snapshot() const;
  [[nodiscard]] std::int64_t count() const noexcept { return sums_.count(); }

  void Save(store::v1::ErrorState& out) const;
  // Restores a saved state. Errors: InvalidArgument; this object must not be used then.
  [[nodiscard]] absl::Status Restore(const store::v1::ErrorState& stored);

  // Maximum number of bytes that a watch holds.
  [[nodiscard]] static std::size_t MaxMemory() noexcept;

 private:
  [[nodiscard]] double limit() const noexcept;
  void Decide(std::int64_t observation);
  void Cross(std::int64_t observation, bool recent, std::size_t series);
  void KeepMark(std::int64_t observation);
  void RestartRecent() noexcept;

  ErrorBudget budget_;
  double error_limit_;
  std::int64_t min_observations_;
  ErrorSums since_start_;
  ErrorSums sums_;
  std::int64_t count_ = 0;
  std::array<RecentErrorEvidence, 2> recent_;
  // Set until the error is within error_limit_.
  std::optional<double> acknowledged_limit_;
  bool over_ = false;
  bool over_recent_ = false;
  // Set at the first crossing of the recent error, which may come before min_observations.
  std::optional<std::size_t> recent_series_;
  std::optional<LimitCrossing> crossing_;
  // The count before which no end of an interval can reach a limit.
  std::int64_t next_decision_ = 0;
  // The sums at every 1024th observation, of which the newest ones are kept, and fewer of the
  // older ones. Replaced instead of changed, because snapshots share it.
  std::shared_ptr<const std::vector<ErrorSums>> marks_;
};

}  // namespace calibd::server

#endif  // CALIBD_SERVER_WATCH_ERROR_WATCH_H_
