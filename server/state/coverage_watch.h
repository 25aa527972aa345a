#ifndef CALIBD_SERVER_STATE_COVERAGE_WATCH_H_
#define CALIBD_SERVER_STATE_COVERAGE_WATCH_H_

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>

#include "absl/status/status.h"
#include "calibd/core/forecast_coverage.h"
#include "calibd/store/v1/store.pb.h"
#include "server/state/error_watch.h"

namespace calibd::server {

// Counts of forecasts since an observation.
struct CoverageSums {
  // Its number within the model, from 1.
  std::int64_t first_observation = 1;
  // Time of the log row with this observation; unset before it.
  std::optional<ErrorSums::Time> start_time;
  ForecastCounts counts;
};

// The counts from which an ErrorSnapshot of forecasts is computed.
struct CoverageSnapshot {
  std::shared_ptr<const ForecastCells> cells;
  CoverageLevels levels;
  CoverageSums since_start;
  CoverageSums sums;
  std::int64_t count = 0;

  // Unset without observations.
  [[nodiscard]] std::optional<ForecastCoverage> SinceStart() const {
    return CoverageOf(*cells, since_start.counts, levels);
  }
  [[nodiscard]] std::optional<ForecastCoverage> Now() const {
    return CoverageOf(*cells, sums.counts, levels);
  }
};

// The coverage error as an interval; the gap is how much less than it promises the widest central
// interval covers, positive if the forecasts are too narrow, and 0 without central intervals.
[[nodiscard]] ErrorInterval IntervalOf(const ForecastCoverage& coverage) noexcept;
// Computes the reading of a snapshot that has a CoverageSnapshot.
[[nodiscard]] ErrorReading ReadCoverage(const ErrorSnapshot& error);

// How far off the coverage of a model of forecasts, or of one of its groups, is against a limit: as
// ErrorWatch, without a recent error. Not thread-safe.
class CoverageWatch {
 public:
  using Time = ErrorSums::Time;

  // alpha: the probability with which its answers may ever be wrong. error_limit: in (0, 1).
  // min_observations: the number of observations before the first answer. first_observation: of the
  // model, from 1.
  CoverageWatch(std::shared_ptr<const ForecastCells> cells, double alpha, double error_limit,
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
  [[nodiscard]] static std::size_t MaxMemory(std::size_t cell_count) noexcept;

 private:
  [[nodiscard]] double limit() const noexcept;
  void Decide(std::int64_t observation);

  std::shared_ptr<const ForecastCells> cells_;
  CoverageLevels levels_;
  double error_limit_;
  std::int64_t min_observations_;
  CoverageSums since_start_;
  CoverageSums sums_;
  std::int64_t count_ = 0;
  // Set until the error is within error_limit_.
  std::optional<double> acknowledged_limit_;
  bool over_ = false;
  std::optional<LimitCrossing> crossing_;
  // The count before which no end of the interval can reach a limit.
  std::int64_t next_decision_ = 0;
};

}  // namespace calibd::server

#endif  // CALIBD_SERVER_STATE_COVERAGE_WATCH_H_
