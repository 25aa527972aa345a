#ifndef CALIBD_CLI_FORECAST_REPORT_H_
#define CALIBD_CLI_FORECAST_REPORT_H_

#include <string>

#include "calibd/v1/calibration_service.pb.h"

namespace calibd::cli {

// Renders the evaluation of forecasts of a number as text. kind: normal, quantiles or samples.
[[nodiscard]] std::string DescribeForecasts(const std::string& kind,
                                            const v1::ForecastEvaluation& evaluation);

}  // namespace calibd::cli

#endif  // CALIBD_CLI_FORECAST_REPORT_H_
