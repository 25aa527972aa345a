#ifndef CALIBD_SERVER_KINDS_CLASSES_CLASS_MEASURE_H_
#define CALIBD_SERVER_KINDS_CLASSES_CLASS_MEASURE_H_

#include <array>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <vector>

#include "calibd/core/error_interval.h"
#include "calibd/core/newest_stretch.h"
#include "calibd/core/prediction_batch.h"
#include "calibd/core/running_reliability.h"
#include "server/watch/limit.h"
#include "server/watch/limit_watch.h"
#include "server/watch/marks.h"
#include "server/watch/state_fields.h"

namespace calibd::server {

// The probabilities with which the answers about the error may ever be wrong. The event of a series
// of sums is "the top label is right", and for two classes also "the label is class 1".
struct ErrorBudget {
  // The levels of each series.
  ErrorLevels levels;
  // The level of the recent error of each series; 0: no recent error.
  double recent = 0;
  // 1, or 2 for two classes.
  std::size_t series = 1;

  // The budget of a model whose answers may be wrong with probability alpha.
  [[nodiscard]] static ErrorBudget OfModel(double alpha, std::size_t class_count) noexcept;
  // The budget of one group of at most `groups` groups, which has no recent error.
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
  // Leaves the sums over the later observations. earlier: the sums over the first ones.
  void Subtract(const ErrorSums& earlier) noexcept;
};

// The sums of a ClassMeasure at one moment.
struct MeasuredClassError final : MeasuredError {
  ErrorBudget budget;
  ErrorSums since_start;
  // Since the last acknowledgement of an error over the limit; equal to since_start before it.
  ErrorSums sums;
  // log10 of the e-value of the recent error, the larger one of two series, and its threshold;
  // unset while the e-value is 0.
  std::optional<double> recent_log10_e_value;
  std::size_t recent_series = 0;
  double recent_threshold = 0;
  // The recent error of each series; empty for a group, which has none.
  std::vector<RecentErrorEvidence::State> recent_states;
  // The sums at some earlier observations, ascending; see ClassMeasure. Never null.
  std::shared_ptr<const std::vector<ErrorSums>> marks;

  [[nodiscard]] std::int64_t count_since_start() const noexcept override {
    return since_start.count();
  }
  [[nodiscard]] const Events& events() const noexcept override {
    static constexpr Events kEvents{"top_label", "class_1"};
    return kEvents;
  }
  // The sums over the observations after `start`, which is 0 or the count of a mark.
  [[nodiscard]] ErrorSums Since(std::int64_t start) const noexcept;
  [[nodiscard]] ErrorReading Read(const ErrorSnapshot& error) const override;
  [[nodiscard]] std::optional<std::int64_t> OverAgainSince(
      const ErrorSnapshot& error) const override;
  [[nodiscard]] std::optional<RowsUntilDecided> Foresee(const ErrorSnapshot& error) const override;
  void Describe(const ErrorSnapshot& error, const ErrorReading& reading,
                v1::CalibrationError& out) const override;
  void DescribeIntervals(const ErrorStretch& stretch, v1::ErrorMeasurement& out) const override;
  void DescribeEvent(std::size_t place, v1::DatedChange& out) const override;
};

// How far off the probabilities of classes are: see error_interval.h. The recent error is that of
// an e-process that forgets. A Measure of LimitWatch.
class ClassMeasure {
 public:
  using Time = ErrorSums::Time;
  using Sums = ErrorSums;
  struct Row {
    const PredictionBatch& batch;
    std::size_t index = 0;
  };

  // An event of a prediction and its stated probability.
  struct Event {
    double stated;
    bool happened;
  };
  // series: 0: the top label is right; 1: the label is class 1.
  [[nodiscard]] static Event EventOf(const Row& row, std::size_t series) noexcept;

  explicit ClassMeasure(const ErrorBudget& budget) : budget_(budget) {}

  [[nodiscard]] Sums NewSums(std::int64_t first_observation) const {
    return {.first_observation = first_observation, .start_time = std::nullopt, .series = {}};
  }
  [[nodiscard]] static std::int64_t Count(const Sums& sums) noexcept { return sums.count(); }
  void Add(const Row& row, double limit, Sums& since_start, Sums& sums,
           std::span<EventDeviations> deviations);
  [[nodiscard]] bool is_model() const noexcept { return budget_.recent > 0; }
  [[nodiscard]] std::size_t event_count() const noexcept {
    return budget_.recent > 0 ? budget_.series : 0;
  }
  [[nodiscard]] LimitCheck Check(const Sums& sums, std::int64_t count, double limit,
                                 double error_limit) const noexcept;
  // The recent error may exceed the limit before the sums are checked.
  [[nodiscard]] std::optional<std::size_t> RecentOver(const Sums& /*sums*/, std::int64_t /*count*/,
                                                      double /*limit*/, bool /*due*/,
                                                      std::int64_t& /*next*/) const noexcept {
    return recent_series_;
  }
  [[nodiscard]] std::optional<ErrorInterval> Interval(const Sums& sums,
                                                      std::size_t series) const noexcept {
    return BinnedErrorInterval(sums.series[series], budget_.levels);
  }
  // The stretch, beginning at a mark or with the sums, that exceeds the limit most clearly. Its
  // start is chosen in hindsight, so it has no interval.
  [[nodiscard]] std::optional<ErrorStretch> Recent(const Sums& sums, std::size_t series,
                                                   std::int64_t count, double limit) const noexcept;
  [[nodiscard]] std::optional<ErrorEnds> Ends(const Sums& sums, std::int64_t count, double limit,
                                              bool recent) const noexcept;
  void KeepMark(const Sums& sums, std::int64_t count, std::int64_t observation, bool over,
                std::int64_t& /*next*/) {
    if (budget_.recent > 0 || over) marks_.Keep(sums, count, observation);
  }
  void SetTime(Time time, std::int64_t count) { marks_.SetTime(time, count); }
  void Restart();
  void LimitChanged(bool raised) noexcept {
    if (raised) RestartRecent();
  }
  [[nodiscard]] std::shared_ptr<const MeasuredError> Snapshot(const Sums& since_start,
                                                              const Sums& sums,
                                                              std::int64_t count) const;

  void SumsFields(StateFields& fields, Sums& sums) const;
  void Fields(StateFields& fields, const Sums& sums);

  // Maximum number of bytes of a watch.
  [[nodiscard]] static std::size_t MaxMemory() noexcept;

 private:
  void RestartRecent() noexcept;

  ErrorBudget budget_;
  std::array<RecentErrorEvidence, 2> recent_;
  // Set at the first crossing of the recent error, which may come before min_observations.
  std::optional<std::size_t> recent_series_;
  // A group keeps marks only while it has an active alarm.
  Marks<ErrorSums> marks_;
};

using ClassErrorWatch = LimitWatch<ClassMeasure>;

}  // namespace calibd::server

#endif  // CALIBD_SERVER_KINDS_CLASSES_CLASS_MEASURE_H_
