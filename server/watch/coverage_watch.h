#ifndef CALIBD_SERVER_WATCH_COVERAGE_WATCH_H_
#define CALIBD_SERVER_WATCH_COVERAGE_WATCH_H_

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <vector>

#include "absl/status/status.h"
#include "calibd/core/forecast_coverage.h"
#include "calibd/store/v1/store.pb.h"
#include "server/kinds/numbers/forecast_sums.h"
#include "server/watch/error_watch.h"

namespace calibd::server {

// Counts of forecasts since an observation.
struct CoverageSums {
  // Its number within the model, from 1.
  std::int64_t first_observation = 1;
  // Time of the log row with this observation; unset before it.
  std::optional<ErrorSums::Time> start_time;
  ForecastCounts counts;
};

// The sums of a watch at an earlier observation.
struct CoverageMark {
  // Numbers the marks of a watch since its sums began, from 1.
  std::int64_t index = 1;
  // Of the observation after the mark, as in CoverageSums.
  std::int64_t first_observation = 1;
  std::optional<ErrorSums::Time> start_time;
  // The counts at the mark, and the scores since the mark before. A score may be so large that the
  // later ones are lost in a sum with it.
  ForecastSums sums;
};

// A stretch of newest observations.
struct CoverageStretch {
  std::int64_t first_observation = 1;
  std::optional<ErrorSums::Time> start_time;
  ForecastCounts counts;
  ForecastCoverage coverage;
};

// The counts from which an ErrorSnapshot of forecasts is computed.
struct CoverageSnapshot {
  std::shared_ptr<const ForecastCells> cells;
  // Of since_start and sums.
  CoverageLevels levels;
  CoverageSums since_start;
  CoverageSums sums;
  std::int64_t count = 0;
  // Marks of `sums`, ascending. Null for a group, which has no recent error.
  std::shared_ptr<const std::vector<CoverageMark>> marks;
  // The scores since the newest mark, without counts.
  ForecastSums since_mark;

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
};

// The coverage error as an interval; the gap is how much less than it promises the widest central
// interval covers, positive if the forecasts are too narrow, and 0 without central intervals.
[[nodiscard]] ErrorInterval IntervalOf(const ForecastCoverage& coverage) noexcept;
// Computes the reading of a snapshot that has a CoverageSnapshot.
[[nodiscard]] ErrorReading ReadCoverage(const ErrorSnapshot& error);

// How far off the coverage of a model of forecasts, or of one of its groups, is against a limit: as
// ErrorWatch. The recent error of a model is that of the stretches of newest observations that
// begin at every 256th one: at some time the intervals of a stretch are wrong with a probability of
// at most alpha, and it exceeds the limit when its lower end does. Not thread-safe.
class CoverageWatch {
 public:
  using Time = ErrorSums::Time;

  enum class Of { kModel, kGroup };
  // Observations between two marks.
  static constexpr std::int64_t kMarkSpacing = 256;

  // alpha: the probability with which its answers may ever be wrong. error_limit: in (0, 1).
  // min_observations: the number of observations before the first answer. first_observation: of the
  // model, from 1. of: a group has no recent error.
  CoverageWatch(Of of, std::shared_ptr<const ForecastCells> cells, double alpha, double error_limit,
                std::int64_t min_observations, std::int64_t first_observation);

  // observation: its number within the model.
  void Add(const ForecastRow& row, std::int64_t observation);
  // Sets the times that are missing because they begin with the newest log row.
  void SetTime(Time time);
  // Begins anew with the settings of an empty watch. Alarms and acknowledgements stay.
  void Restart(CoverageWatch empty);
  // Sets error_limit, and decides again.
  void SetLimit(double error_limit, std::int64_t observation);
  // The crossing for which no alarm was raised yet. Call it once after each log row.
  [[nodiscard]] std::optional<LimitCrossing> TakeCrossing() noexcept;
  // As ErrorWatch::Acknowledge.
  void Acknowledge(std::int64_t observations);

  [[nodiscard]] ErrorSnapshot Snapshot() const;

  void Save(store::v1::ErrorState& out) const;
  // Restores a saved state. Errors: InvalidArgument; this object must not be used then.
  [[nodiscard]] absl::Status Restore(const store::v1::ErrorState& stored);

  // Maximum number of bytes that a watch holds, with two snapshots.
  [[nodiscard]] static std::size_t MaxMemory(Of of, std::size_t cell_count) noexcept;

 private:
  [[nodiscard]] double limit() const noexcept;
  [[nodiscard]] CoverageSnapshot CoverageState() const;
  void Decide(std::int64_t observation);
  // Decides by the marks that are due.
  void DecideRecent(std::span<const std::int64_t> cells, std::int64_t observation);
  void KeepMark(std::int64_t observation);
  void ClearMarks();

  std::shared_ptr<const ForecastCells> cells_;
  CoveragePartition partition_;
  CoverageLevels levels_;
  double error_limit_;
  std::int64_t min_observations_;
  CoverageSums since_start_;
  CoverageSums sums_;
  std::int64_t count_ = 0;
  // Set until the error is within error_limit_.
  std::optional<double> acknowledged_limit_;
  bool over_ = false;
  bool over_recent_ = false;
  std::optional<LimitCrossing> crossing_;
  // The count before which no end of an interval can reach a limit.
  std::int64_t next_decision_ = 0;
  // Replaced instead of changed, because snapshots share it. Null for a group.
  std::shared_ptr<const std::vector<CoverageMark>> marks_;
  ForecastSums since_mark_;
  // The same as next_decision_ for the stretch of each mark, in their order.
  std::vector<std::int64_t> next_checks_;
};

}  // namespace calibd::server

#endif  // CALIBD_SERVER_WATCH_COVERAGE_WATCH_H_
