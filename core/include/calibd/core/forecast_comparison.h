#ifndef CALIBD_CORE_FORECAST_COMPARISON_H_
#define CALIBD_CORE_FORECAST_COMPARISON_H_

#include <cstdint>
#include <optional>

#include "absl/status/statusor.h"
#include "calibd/core/comparison.h"
#include "calibd/core/forecast_cells.h"

namespace calibd {

// Two models that forecast the same number, compared by proper scores. The scores have no bound, so
// that the intervals are AsymptoticConfidenceRadius: each holds at all n >= kLeastComparedForecasts
// at once with a probability of about 1 - kComparisonLevel, the better the more observations there
// are. What is said of a moving window in comparison.h applies to them too.

// With fewer observations, the approximation of the intervals is poor.
inline constexpr std::int64_t kLeastComparedForecasts = 100;

// Forecasts of one model with their outcomes.
struct KindForecasts {
  NumberForecastKind kind;
  NumberForecastBatch batch;
};

struct ForecastComparison {
  // ForecastRow::crps: the CRPS of Normal forecasts and samples, and of quantiles twice the mean
  // pinball loss. In the unit of the outcomes.
  ScoreDifference crps;
  // In nats. Set if both models give Normal forecasts.
  std::optional<ScoreDifference> log_score;
};

// Whether the scores of two kinds are the same score: Normal forecasts and samples, of any number
// of draws, have the CRPS; quantiles are compared only with quantiles of the same levels. Errors:
// InvalidArgument that says how the kinds differ.
[[nodiscard]] absl::Status CheckComparable(const NumberForecastKind& model,
                                           const NumberForecastKind& baseline);

// Compares two models by the same observations in the same order. Source of the intervals: see
// ComparePaired for the use of differences.
//
// model, baseline: valid forecasts with valid outcomes. Errors: InvalidArgument (CheckComparable),
// or unless both have the same outcomes; FailedPrecondition if there are fewer than
// kLeastComparedForecasts observations, or if the square of a score exceeds the range of double.
// Cost: that of ForecastCells::Describe.
[[nodiscard]] absl::StatusOr<ForecastComparison> CompareForecastsPaired(
    const KindForecasts& model, const KindForecasts& baseline);

// Compares two models by different observations, each in its own order; the two sequences may
// depend on each other. A difference may also come from the observations, or from a unit of the
// outcomes that differs. Errors and cost: as CompareForecastsPaired, for either model.
[[nodiscard]] absl::StatusOr<ForecastComparison> CompareForecastsUnpaired(
    const KindForecasts& model, const KindForecasts& baseline);

}  // namespace calibd

#endif  // CALIBD_CORE_FORECAST_COMPARISON_H_
