#ifndef CALIBD_SERVER_KINDS_NUMBERS_COVERAGE_MEASURE_H_
#define CALIBD_SERVER_KINDS_NUMBERS_COVERAGE_MEASURE_H_

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <vector>

#include "calibd/core/forecast_coverage.h"
#include "calibd/core/newest_stretch.h"
#include "server/kinds/numbers/forecast_sums.h"
#include "server/watch/limit.h"
#include "server/watch/limit_watch.h"
#include "server/watch/state_fields.h"

namespace calibd::server {

// Counts of forecasts since an observation.
struct CoverageSums {
  // Its number within the model, from 1.
  std::int64_t first_observation = 1;
  // Time of the log row with this observation; unset before it.
  std::optional<ErrorStretch::Time> start_time;
  ForecastCounts counts;
};

// The sums of a watch at an earlier observation.
struct CoverageMark {
  // Numbers the marks of a watch since its sums began, from 1.
  std::int64_t index = 1;
  // Of the observation after the mark, as in CoverageSums.
  std::int64_t first_observation = 1;
  std::optional<ErrorStretch::Time> start_time;
  // The counts at the mark, and the scores since the mark before. A score may be so large that the
  // later ones are lost in a sum with it.
  ForecastSums sums;
};

// A stretch of newest observations.
struct CoverageStretch {
  // Number of the observations before it since the sums began.
  std::int64_t start = 0;
  std::int64_t first_observation = 1;
  std::optional<ErrorStretch::Time> start_time;
  ForecastCounts counts;
  ForecastCoverage coverage;
  // True if an error that was over its limit is within it again in this stretch.
  bool recovered = false;
};

// The counts of a CoverageMeasure at one moment.
struct MeasuredCoverage final : MeasuredError {
  std::shared_ptr<const ForecastCells> cells;
  // Of since_start and sums.
  CoverageLevels levels;
  CoverageSums since_start;
  CoverageSums sums;
  std::int64_t count = 0;
  // False for a group, which has no recent error.
  bool is_model = true;
  // Marks of `sums`, ascending; see CoverageMeasure. Never null.
  std::shared_ptr<const std::vector<CoverageMark>> marks;
  // The scores since the newest mark, without counts.
  ForecastSums since_mark;

  // The mark at this count of observations; null for 0.
  [[nodiscard]] const CoverageMark* MarkAt(std::int64_t start) const noexcept;
  // The stretch since a mark, or if it is null since `sums` began. own: the levels of its
  // intervals.
  [[nodiscard]] CoverageStretch Since(const CoverageMark* from, const CoverageLevels& own) const;
  // Unset without observations.
  [[nodiscard]] std::optional<ForecastCoverage> SinceStart() const {
    return CoverageOf(*cells, since_start.counts, levels);
  }
  [[nodiscard]] std::optional<ForecastCoverage> Now() const {
    return CoverageOf(*cells, sums.counts, levels);
  }
  // Of the stretches that begin with `sums` or a mark, the one whose coverage error has the largest
  // lower end; the longest of several, while all lower ends are 0 or less. Unset for a group, or
  // without observations. Its intervals hold, although it is chosen by the data: see StretchLevels.
  [[nodiscard]] std::optional<CoverageStretch> Recent() const;
  [[nodiscard]] std::int64_t count_since_start() const noexcept override {
    return since_start.counts.count();
  }
  // Since which count the coverage error is within error_limit again: see RecoveredAfterChange.
  // error: of an active alarm.
  [[nodiscard]] std::optional<std::int64_t> Recovered(const ErrorSnapshot& error) const;
  // The stretch that answers show; see ErrorReading::newest.
  [[nodiscard]] std::optional<CoverageStretch> Newest(const ErrorSnapshot& error) const;
  // A tied outcome is neither inside nor outside of a central interval.
  [[nodiscard]] bool dates_changes() const noexcept override {
    return !since_start.counts.has_ties();
  }
  [[nodiscard]] const Events& events() const noexcept override {
    static constexpr Events kEvents{"coverage", ""};
    return kEvents;
  }
  [[nodiscard]] ErrorReading Read(const ErrorSnapshot& error) const override;
  [[nodiscard]] std::optional<std::int64_t> OverAgainSince(
      const ErrorSnapshot& error) const override;
  [[nodiscard]] std::optional<RowsUntilDecided> Foresee(const ErrorSnapshot& error) const override;
  void Describe(const ErrorSnapshot& error, const ErrorReading& reading,
                v1::CalibrationError& out) const override;
  void DescribeIntervals(const ErrorStretch& stretch, v1::ErrorMeasurement& out) const override;
  void DescribeEvent(std::size_t place, v1::DatedChange& out) const override;

 private:
  // The counts of the marks at which a stretch may begin, of those after an observation of the
  // model; see calibd/core/newest_stretch.h.
  [[nodiscard]] std::vector<std::int64_t> StartsAfter(std::int64_t observation) const;
  // The ends of the error of the observations start + 1 to end; both are counts of marks, or end is
  // `count`.
  [[nodiscard]] ErrorEnds EndsBetween(const CoveragePartition& partition, std::int64_t start,
                                      std::int64_t end, double level) const;
};

// The central intervals of the forecasts, ascending by their promise.
[[nodiscard]] std::vector<CentralInterval> CentralOf(const ForecastCells& cells);

// The coverage error as an interval; the gap is how much less than it promises the widest central
// interval covers, positive if the forecasts are too narrow, and 0 without central intervals.
[[nodiscard]] ErrorInterval IntervalOf(const ForecastCoverage& coverage) noexcept;

// How far off the coverage of the forecasts of a model, or of one of its groups, is. The recent
// error of a model is that of the stretches of newest observations that begin at every 256th one:
// at some time the intervals of a stretch are wrong with a probability of at most alpha, and it
// exceeds the limit when its lower end does. A group has none; while it has an active alarm it
// keeps marks at every 1024th observation, so that the alarm can recover. A Measure of LimitWatch.
class CoverageMeasure {
 public:
  using Time = ErrorStretch::Time;
  using Sums = CoverageSums;
  using Row = ForecastRow;

  enum class Of { kModel, kGroup };
  // Observations between two marks.
  static constexpr std::int64_t kMarkSpacing = 256;

  // alpha: the probability with which its answers may ever be wrong. of: a group has no recent
  // error.
  CoverageMeasure(Of of, std::shared_ptr<const ForecastCells> cells, double alpha);

  [[nodiscard]] Sums NewSums(std::int64_t first_observation) const {
    return {.first_observation = first_observation,
            .start_time = std::nullopt,
            .counts = ForecastCounts(cells_->cell_count())};
  }
  [[nodiscard]] static std::int64_t Count(const Sums& sums) noexcept { return sums.counts.count(); }
  void Add(const Row& row, double limit, Sums& since_start, Sums& sums,
           std::span<EventDeviations> deviations);
  [[nodiscard]] bool is_model() const noexcept { return of_ == Of::kModel; }
  // The central intervals of the forecasts.
  [[nodiscard]] std::size_t event_count() const noexcept {
    return of_ == Of::kModel ? central_.size() : 0;
  }
  [[nodiscard]] LimitCheck Check(const Sums& sums, std::int64_t count, double limit,
                                 double error_limit) const;
  [[nodiscard]] std::optional<std::size_t> RecentOver(const Sums& sums, std::int64_t count,
                                                      double limit, bool due, std::int64_t& next) {
    // Few observations are due.
    return due && of_ != Of::kGroup ? CheckRecent(sums, count, limit, next) : std::nullopt;
  }
  [[nodiscard]] std::optional<ErrorInterval> Interval(const Sums& sums, std::size_t series) const;
  [[nodiscard]] std::optional<ErrorStretch> Recent(const Sums& sums, std::size_t series,
                                                   std::int64_t count, double limit) const;
  [[nodiscard]] std::optional<ErrorEnds> Ends(const Sums& sums, std::int64_t count, double limit,
                                              bool recent) const;
  void KeepMark(const Sums& sums, std::int64_t count, std::int64_t observation, bool over,
                std::int64_t& next);
  void SetTime(Time time, std::int64_t count);
  void Restart();
  void LimitChanged(bool raised);
  [[nodiscard]] std::shared_ptr<const MeasuredError> Snapshot(const Sums& since_start,
                                                              const Sums& sums,
                                                              std::int64_t count) const;

  void SumsFields(StateFields& fields, Sums& sums) const;
  void Fields(StateFields& fields, const Sums& sums);

  // Maximum number of bytes of a watch, with two snapshots. quantiles: whether the forecasts are
  // these, which outcomes may equal.
  [[nodiscard]] static std::size_t MaxMemory(Of of, std::size_t cell_count,
                                             bool quantiles) noexcept;

 private:
  [[nodiscard]] std::optional<std::size_t> CheckRecent(const Sums& sums, std::int64_t count,
                                                       double limit, std::int64_t& next);
  // Called before a tied outcome is added. before: the counts of `sums` without it.
  void CheckTiedStretches(const ForecastCounts& before);
  // Whether scores are summed between marks.
  [[nodiscard]] bool has_scores() const noexcept { return of_ == Of::kModel || !marks_->empty(); }
  [[nodiscard]] MeasuredCoverage State(const Sums& since_start, const Sums& sums,
                                       std::int64_t count) const;

  std::shared_ptr<const ForecastCells> cells_;
  CoveragePartition partition_;
  std::vector<CentralInterval> central_;
  CoverageLevels levels_;
  Of of_;
  // Replaced instead of changed, because snapshots share it. Never null.
  std::shared_ptr<const std::vector<CoverageMark>> marks_ =
      std::make_shared<std::vector<CoverageMark>>();
  ForecastSums since_mark_;
  // For the stretch of each mark, in their order: the count before which its lower end cannot reach
  // the limit.
  std::vector<std::int64_t> next_checks_;
  // Between Add and KeepMark: the outcome is the first tied one of a stretch, whose error then is
  // that of levels. Its ends may be anywhere, so that the next observation is checked.
  bool check_next_ = false;
};

using CoverageWatch = LimitWatch<CoverageMeasure>;

}  // namespace calibd::server

#endif  // CALIBD_SERVER_KINDS_NUMBERS_COVERAGE_MEASURE_H_
