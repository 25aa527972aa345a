#ifndef CALIBD_SERVER_KINDS_LABELS_LABEL_MEASURE_H_
#define CALIBD_SERVER_KINDS_LABELS_LABEL_MEASURE_H_

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <vector>

#include "absl/status/status.h"
#include "calibd/core/label_errors.h"
#include "calibd/core/multilabel.h"
#include "calibd/core/newest_stretch.h"
#include "calibd/store/v1/store.pb.h"
#include "server/watch/limit.h"
#include "server/watch/limit_watch.h"
#include "server/watch/marks.h"

namespace calibd::server {

// Sums over predictions of labels since an observation.
struct LabelErrorSums {
  // Its number within the model, from 1.
  std::int64_t first_observation = 1;
  // Time of the log row with this observation; unset before it.
  std::optional<ErrorStretch::Time> start_time;
  LabelTotals totals;

  [[nodiscard]] std::int64_t count() const noexcept { return totals.rows; }
  // Leaves the sums over the later observations. earlier: the sums over the first ones.
  void Subtract(const LabelErrorSums& earlier) noexcept { totals.Subtract(earlier.totals); }
};

// The sums of a LabelMeasure at one moment.
struct MeasuredLabels final : MeasuredError {
  std::size_t label_count = 1;
  ErrorLevels levels;
  LabelErrorSums since_start;
  // Since the last acknowledgement of an error over the limit; equal to since_start before it.
  LabelErrorSums sums;
  // True for all labels of a model together, false for one of them.
  bool is_model = true;
  // The sums at some earlier observations, ascending; see LabelMeasure. Never null.
  std::shared_ptr<const std::vector<LabelErrorSums>> marks;

  [[nodiscard]] std::int64_t count_since_start() const noexcept override {
    return since_start.totals.rows;
  }
  // The first of two series is that of the labels; there is no second one.
  [[nodiscard]] const Events& events() const noexcept override {
    static constexpr Events kEvents{"labels", ""};
    return kEvents;
  }
  [[nodiscard]] ErrorReading Read(const ErrorSnapshot& error) const override;
  [[nodiscard]] std::optional<std::int64_t> OverAgainSince(
      const ErrorSnapshot& error) const override;
  void Describe(const ErrorSnapshot& error, const ErrorReading& reading,
                v1::CalibrationError& out) const override;
  void DescribeIntervals(const ErrorStretch& stretch, v1::ErrorMeasurement& out) const override;
  void DescribeEvent(std::size_t /*place*/, v1::DatedChange& out) const override {
    out.set_event(v1::DatedChange::LABELS);
  }
};

// How far off the probabilities of K labels together are, or with K = 1 that of one label: see
// label_errors.h. There is no recent error, but an alarm may recover. A Measure of LimitWatch.
class LabelMeasure {
 public:
  using Time = ErrorStretch::Time;
  using Sums = LabelErrorSums;
  // One row of K probabilities and K truths.
  using Row = MultilabelBatch;

  enum class Of { kModel, kLabel };

  // levels: those of the interval.
  LabelMeasure(Of of, std::size_t label_count, const ErrorLevels& levels)
      : of_(of), label_count_(label_count), levels_(levels) {}

  [[nodiscard]] static Sums NewSums(std::int64_t first_observation) {
    return {.first_observation = first_observation, .start_time = std::nullopt, .totals = {}};
  }
  [[nodiscard]] static std::int64_t Count(const Sums& sums) noexcept { return sums.totals.rows; }
  static void Add(const Row& row, double limit, Sums& since_start, Sums& sums,
                  std::span<EventDeviations> deviations);
  [[nodiscard]] bool is_model() const noexcept { return of_ == Of::kModel; }
  [[nodiscard]] std::size_t event_count() const noexcept { return of_ == Of::kModel ? 1 : 0; }
  [[nodiscard]] LimitCheck Check(const Sums& sums, std::int64_t count, double limit,
                                 double error_limit) const noexcept;
  [[nodiscard]] static std::optional<std::size_t> RecentOver(const Sums& /*sums*/,
                                                             std::int64_t /*count*/,
                                                             double /*limit*/, bool /*due*/,
                                                             std::int64_t& /*next*/) noexcept {
    return std::nullopt;
  }
  [[nodiscard]] std::optional<ErrorInterval> Interval(const Sums& sums,
                                                      std::size_t /*series*/) const noexcept {
    return sums.totals.Interval(label_count_, levels_);
  }
  [[nodiscard]] static std::optional<ErrorStretch> Recent(const Sums& /*sums*/,
                                                          std::size_t /*series*/,
                                                          std::int64_t /*count*/,
                                                          double /*limit*/) noexcept {
    return std::nullopt;
  }
  [[nodiscard]] std::optional<ErrorEnds> Ends(const Sums& sums, std::int64_t /*count*/,
                                              double /*limit*/, bool /*recent*/) const noexcept {
    const std::optional<ErrorInterval> interval = Interval(sums, 0);
    if (!interval.has_value()) return std::nullopt;
    return ErrorEnds{.lower = interval->lower, .upper = interval->upper};
  }
  void KeepMark(const Sums& sums, std::int64_t count, std::int64_t observation, bool over,
                std::int64_t& /*next*/) {
    if (of_ == Of::kModel || over) marks_.Keep(sums, count, observation, kMostMarkAge);
  }
  void SetTime(Time time, std::int64_t count) { marks_.SetTime(time, count); }
  void Restart() { marks_.Clear(); }
  static void LimitChanged(bool /*raised*/) noexcept {}
  [[nodiscard]] std::shared_ptr<const MeasuredError> Snapshot(const Sums& since_start,
                                                              const Sums& sums,
                                                              std::int64_t count) const;

  void SumsFields(StateFields& fields, Sums& sums) const;
  void Fields(StateFields& fields, const Sums& sums);

  // Maximum number of bytes of a watch, with two snapshots.
  [[nodiscard]] static constexpr std::size_t MaxMemory() noexcept {
    return sizeof(LimitWatch<LabelMeasure>) +
           2 * (sizeof(ErrorSnapshot) + sizeof(ErrorSnapshot::Memo) + sizeof(MeasuredLabels)) +
           2 * kMostLabelMarks * sizeof(Sums);
  }

 private:
  // So that many labels fit into memory, stretches have at most 2^20 observations: marks are kept
  // of the newest 8, and two of each power of two of their age from 8 to 1024.
  static constexpr std::int64_t kMostMarkAge = 1024;
  static constexpr std::size_t kMostLabelMarks = 8 + std::size_t{2} * 8;

  Of of_;
  std::size_t label_count_;
  ErrorLevels levels_;
  // A single label keeps marks only while it has an active alarm.
  Marks<LabelErrorSums> marks_;
};

}  // namespace calibd::server

#endif  // CALIBD_SERVER_KINDS_LABELS_LABEL_MEASURE_H_
