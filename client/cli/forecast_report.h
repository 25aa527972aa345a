#ifndef CALIBD_CLI_FORECAST_REPORT_H_
#define CALIBD_CLI_FORECAST_REPORT_H_

#include <string>

#include "calibd/core/forecast_evaluation.h"
#include "report.h"

namespace calibd::cli {

// Renders the evaluation of forecasts of a number as text for people, and as JSON: see
// client/cli/OUTPUT.md.
[[nodiscard]] std::string DescribeForecasts(const NumberForecastKind& kind,
                                            const ForecastEvaluation& evaluation);
[[nodiscard]] Json ForecastJson(const NumberForecastKind& kind,
                                const ForecastEvaluation& evaluation);

}  // namespace calibd::cli

#endif  // CALIBD_CLI_FORECAST_REPORT_H_
