#ifndef CALIBD_CORE_FORECAST_RECALIBRATION_H_
#define CALIBD_CORE_FORECAST_RECALIBRATION_H_

#include <cstddef>
#include <optional>
#include <span>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "calibd/core/dated_change.h"
#include "calibd/core/forecast_cells.h"
#include "calibd/core/forecast_coverage.h"
#include "calibd/core/recalibration.h"
#include "calibd/core/run_control.h"

namespace calibd {

// Recalibration of forecasts of a number: where a forecast states the distribution function F, the
// repaired one is R(F). R is the isotonic regression of the observed shares on the stated
// probabilities. Source: Kuleshov, Fenner & Ermon, ICML 2018, Algorithm 1; it is the post-hoc
// calibration of Marx, Zalouk & Ermon, NeurIPS 2023, Table 3.
//
// Quantiles, and the sorted draws of samples, at the levels j / (r + 1), state F at some places. F
// is in between, and beyond the outer places, the Normal distribution function of a linear
// function; beyond, its slope is that between the outer places. For quantiles of a Normal forecast
// this is exact. If all places are equal, F jumps from 0 to 1.

// R: 0 at 0, shares[i] at levels[i], 1 at 1, and linear in between.
struct LevelCurve {
  // In (0, 1), increasing, 1 to kMaxCurveLevels.
  std::vector<double> levels;
  // One value for each of them, nondecreasing, in (0, 1).
  std::vector<double> shares;

  friend bool operator==(const LevelCurve&, const LevelCurve&) = default;
};
inline constexpr std::size_t kMaxCurveLevels = 1000;
// Errors: InvalidArgument if the curve is invalid.
[[nodiscard]] absl::Status CheckLevelCurve(const LevelCurve& curve);

// The levels at which repaired forecasts are stated: those of quantiles; .05, .1, ..., .95 for
// Normal forecasts; the levels j / (r + 1) nearest to these for samples. kind: valid.
[[nodiscard]] std::vector<double> RepairedLevels(const NumberForecastKind& kind);

// The quantiles of the repaired forecasts at the levels, n x levels, row-major; they do not
// decrease within a row. curve: valid, or unset for those of the given forecasts. forecasts: n
// valid rows of this kind. levels: in (0, 1), ascending. Cost: O(n (w log w + levels)).
[[nodiscard]] std::vector<double> RepairForecasts(const std::optional<LevelCurve>& curve,
                                                  const NumberForecastKind& kind,
                                                  std::span<const double> forecasts,
                                                  std::span<const double> levels);

// The regression over n outcomes. The outcome with the i-th smallest stated probability has the
// share i / (n + 1), the expectation of the i-th of n ordered uniform numbers. The curve keeps at
// most 500 of the levels, with equally spaced shares. batch: valid, at least one row. Cost: O(n (w
// log w + log n)).
[[nodiscard]] LevelCurve FitLevelCurve(const NumberForecastKind& kind,
                                       const NumberForecastBatch& batch);

// A map, and what it gains on observations that were not used to fit it.
struct ForecastRecalibrationAdvice {
  // kNone or kDependentRows. With an obstacle, there is no curve.
  MapObstacle obstacle = MapObstacle::kNone;
  std::optional<LevelCurve> curve;
  RecalibrationSplit split = RecalibrationSplit::kHalves;
  std::size_t fit_observations = 0;
  std::size_t test_observations = 0;
  // Over the observations that measured the benefit, without and with the map: twice the quantile
  // loss, averaged over RepairedLevels, in the unit of the outcomes.
  double pinball_loss_before = 0;
  double pinball_loss_after = 0;
  // pinball_loss_before - pinball_loss_after, and its 95 % interval: the normal one of paired
  // differences. It assumes independent observations, and is approximate.
  double improvement = 0;
  double improvement_lower = 0;
  double improvement_upper = 0;
  // The coverage of the quantiles of the same observations at RepairedLevels, for one look. The
  // interval of each coverage error holds with 95 %. That with the map speaks of observations to
  // come only if nothing changed within these observations and nothing changes later.
  ForecastCoverage coverage_before;
  ForecastCoverage coverage_after;

  // The improvement is not a matter of chance.
  [[nodiscard]] bool helps() const noexcept { return improvement_lower > 0; }
};

// batch: valid, the oldest observation first. older: as for AdviseRecalibration. Errors:
// InvalidArgument for quantiles of one level, which do not state a distribution;
// FailedPrecondition with fewer than kMinRecalibrationObservations that the map may use; Cancelled.
[[nodiscard]] absl::StatusOr<ForecastRecalibrationAdvice> AdviseForecastRecalibration(
    const NumberForecastKind& kind, const NumberForecastBatch& batch, RecalibrationSplit split,
    const RunControl& control = {}, std::size_t older = 0);

// The deviations of a batch in its order from a central interval that promises this share.
struct CentralDeviations {
  double promised = 0;
  DeviationBlocks blocks;
};
// Those of each central interval. Empty if an outcome equals a quantile, because then it is neither
// inside nor outside. batch: valid.
[[nodiscard]] std::vector<CentralDeviations> DeviationsOf(const NumberForecastKind& kind,
                                                          const NumberForecastBatch& batch);

// Upper bounds for AdviseForecastRecalibration of n observations.
[[nodiscard]] double ForecastRecalibrationMemory(std::size_t n, const NumberForecastKind& kind);
[[nodiscard]] double ForecastRecalibrationOperations(std::size_t n, const NumberForecastKind& kind);

}  // namespace calibd

#endif  // CALIBD_CORE_FORECAST_RECALIBRATION_H_
