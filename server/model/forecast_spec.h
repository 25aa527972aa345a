#ifndef CALIBD_SERVER_MODEL_FORECAST_SPEC_H_
#define CALIBD_SERVER_MODEL_FORECAST_SPEC_H_

#include <vector>

#include "calibd/core/decision_calibration.h"
#include "calibd/core/forecast_cells.h"
#include "calibd/core/validation.h"
#include "calibd/v1/model_service.pb.h"

namespace calibd::server {

// Converts a declared kind of forecasts that is valid by the rules of its fields. violations:
// receives the fields that are invalid for another reason, with paths below "model.forecast"; the
// result is meaningless then.
[[nodiscard]] NumberForecastKind CheckForecast(const v1::Forecast& forecast,
                                               std::vector<Violation>& violations);
[[nodiscard]] v1::Forecast ToProto(const NumberForecastKind& kind);

// The same for the decision of such a model, with paths below "model.forecast.decision".
[[nodiscard]] ThresholdDecision CheckDecision(const v1::ThresholdDecision& decision,
                                              const NumberForecastKind& kind,
                                              std::vector<Violation>& violations);
[[nodiscard]] v1::ThresholdDecision ToProto(const ThresholdDecision& decision);

}  // namespace calibd::server

#endif  // CALIBD_SERVER_MODEL_FORECAST_SPEC_H_
