#ifndef CALIBD_CONVERT_FORECAST_H_
#define CALIBD_CONVERT_FORECAST_H_

#include <cstdint>
#include <optional>
#include <span>
#include <string>

#include "absl/status/statusor.h"
#include "calibd/core/decision_calibration.h"
#include "calibd/core/forecast_coverage.h"
#include "calibd/core/forecast_evaluation.h"
#include "calibd/v1/calibration_service.pb.h"
#include "calibd/v1/monitoring.pb.h"

namespace calibd::convert {

[[nodiscard]] v1::CentralCoverage ToProto(const CentralCoverage& coverage);
[[nodiscard]] v1::LevelCoverage ToProto(const LevelCoverage& coverage);
// Converts the central intervals that exist, and the levels where outcomes equal quantiles.
// Message: v1::ErrorMeasurement or v1::ForecastScores, without any of them.
template <typename Message>
void SetCoverage(const ForecastCoverage& coverage, Message& proto) {
  for (const std::optional<CentralCoverage>& one : coverage.central) {
    if (one.has_value()) *proto.add_central_coverage() = ToProto(*one);
  }
  for (const LevelCoverage& one : coverage.levels) *proto.add_level_coverage() = ToProto(one);
}

[[nodiscard]] v1::ForecastCell ToProto(const CellDeviation& cell);

// The options of a request about a model of forecasts. Converts everything except an unset seed.
// declared: the decision that is evaluated if the request has no threshold. Errors: InvalidArgument
// whose message begins with the field and a space, also for a field that such a model does not
// have.
[[nodiscard]] absl::StatusOr<ForecastEvaluationOptions> ForecastOptionsFromProto(
    const v1::EvaluateRequest& request, const NumberForecastKind& kind,
    const std::optional<ThresholdDecision>& declared);

// tested: with a ForecastCondition, by a test with this seed. The provenance lacks what only a
// server knows.
void ToProto(const ForecastTestResult& tested, std::uint64_t seed, v1::QuadraticTestResult& proto);

// options, covariates: what the evaluation was made with. feature_names: the names of the
// covariates. The result lacks the observations' numbers and the time.
[[nodiscard]] v1::Evaluation ToProto(const ForecastEvaluation& evaluation,
                                     const ForecastEvaluationOptions& options,
                                     const ForecastCovariates& covariates,
                                     std::span<const std::string> feature_names);

}  // namespace calibd::convert

#endif  // CALIBD_CONVERT_FORECAST_H_
