#include "calibd/core/forecast_comparison.h"

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <span>
#include <variant>
#include <vector>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "calibd/core/confidence_sequence.h"
#include "calibd/core/evidence.h"
#include "calibd/core/status_macros.h"

namespace calibd {
namespace {

std::string Describe(const NumberForecastKind& kind) {
  if (const auto* const quantiles = std::get_if<QuantileForecasts>(&kind)) {
    return absl::StrCat("quantiles at ", absl::StrJoin(quantiles->levels, ", "));
  }
  return std::holds_alternative<NormalForecasts>(kind) ? "Normal forecasts" : "samples";
}

// The scores of each row, in order.
std::vector<ForecastRow> ScoreRows(const KindForecasts& forecasts) {
  // The scores depend neither on the strata, nor on the seed and the tolerance.
  const auto cells = *ForecastCells::Create(forecasts.kind, {}, 0, kDefaultTolerance);
  std::vector<ForecastRow> rows(forecasts.batch.size());
  cells->Describe(forecasts.batch, 1, rows);
  return rows;
}

using Score = double ForecastRow::*;

RunningMoments MomentsOfScore(std::span<const ForecastRow> rows, Score score) {
  RunningMoments moments;
  for (const ForecastRow& row : rows) moments.Add(row.*score);
  return moments;
}

ScoreDifference PairedDifference(std::span<const ForecastRow> model,
                                 std::span<const ForecastRow> baseline, Score score) {
  RunningMoments difference;
  for (std::size_t i = 0; i < model.size(); ++i) {
    difference.Add(model[i].*score - baseline[i].*score);
  }
  const double radius = *AsymptoticConfidenceRadius(difference, kComparisonLevel);
  return {.model = MomentsOfScore(model, score).mean,
          .baseline = MomentsOfScore(baseline, score).mean,
          .difference = difference.mean,
          .lower = difference.mean - radius,
          .upper = difference.mean + radius};
}

ScoreDifference UnpairedDifference(std::span<const ForecastRow> model,
                                   std::span<const ForecastRow> baseline, Score score) {
  const RunningMoments of_model = MomentsOfScore(model, score);
  const RunningMoments of_baseline = MomentsOfScore(baseline, score);
  const double difference = of_model.mean - of_baseline.mean;
  const double radius = *AsymptoticConfidenceRadius(of_model, kComparisonLevel / 2) +
                        *AsymptoticConfidenceRadius(of_baseline, kComparisonLevel / 2);
  return {.model = of_model.mean,
          .baseline = of_baseline.mean,
          .difference = difference,
          .lower = difference - radius,
          .upper = difference + radius};
}

absl::Status CheckForecasts(const KindForecasts& model, const KindForecasts& baseline) {
  CALIBD_RETURN_IF_ERROR(CheckComparable(model.kind, baseline.kind));
  const auto few = std::min(model.batch.size(), baseline.batch.size());
  if (few >= kLeastComparedForecasts) return absl::OkStatus();
  return absl::FailedPreconditionError(
      absl::StrCat("the model has ", model.batch.size(), " observations and the baseline has ",
                   baseline.batch.size(), ", both need at least ", kLeastComparedForecasts));
}

bool IsFinite(const ScoreDifference& score) {
  return std::isfinite(score.model) && std::isfinite(score.baseline) &&
         std::isfinite(score.lower) && std::isfinite(score.upper);
}

// difference(score): of all rows.
template <typename Difference>
absl::StatusOr<ForecastComparison> Compare(const KindForecasts& model,
                                           const KindForecasts& baseline,
                                           const Difference& difference) {
  ForecastComparison comparison{.crps = difference(&ForecastRow::crps), .log_score = {}};
  if (std::holds_alternative<NormalForecasts>(model.kind) &&
      std::holds_alternative<NormalForecasts>(baseline.kind)) {
    comparison.log_score = difference(&ForecastRow::log_score);
  }
  if (IsFinite(comparison.crps) && IsFinite(comparison.log_score.value_or(ScoreDifference()))) {
    return comparison;
  }
  return absl::FailedPreconditionError(
      "squares of the scores exceed the range of double: check the outcomes far from their "
      "forecasts, or give both in another unit");
}

}  // namespace

absl::Status CheckComparable(const NumberForecastKind& model, const NumberForecastKind& baseline) {
  const bool has_quantiles = std::holds_alternative<QuantileForecasts>(model) ||
                             std::holds_alternative<QuantileForecasts>(baseline);
  if (!has_quantiles || model == baseline) return absl::OkStatus();
  return absl::InvalidArgumentError(absl::StrCat(
      "has ", Describe(baseline), " and the model has ", Describe(model),
      ", whose scores are not comparable: expected quantiles at the same levels, or Normal "
      "forecasts or samples of both"));
}

absl::StatusOr<ForecastComparison> CompareForecastsPaired(const KindForecasts& model,
                                                          const KindForecasts& baseline) {
  CALIBD_RETURN_IF_ERROR(CheckForecasts(model, baseline));
  if (!std::ranges::equal(model.batch.outcomes, baseline.batch.outcomes)) {
    return absl::InvalidArgumentError(
        "the outcomes of the model and the baseline differ, expected the same observations");
  }
  const std::vector<ForecastRow> of_model = ScoreRows(model);
  const std::vector<ForecastRow> of_baseline = ScoreRows(baseline);
  return Compare(model, baseline,
                 [&](Score score) { return PairedDifference(of_model, of_baseline, score); });
}

absl::StatusOr<ForecastComparison> CompareForecastsUnpaired(const KindForecasts& model,
                                                            const KindForecasts& baseline) {
  CALIBD_RETURN_IF_ERROR(CheckForecasts(model, baseline));
  const std::vector<ForecastRow> of_model = ScoreRows(model);
  const std::vector<ForecastRow> of_baseline = ScoreRows(baseline);
  return Compare(model, baseline,
                 [&](Score score) { return UnpairedDifference(of_model, of_baseline, score); });
}

}  // namespace calibd
