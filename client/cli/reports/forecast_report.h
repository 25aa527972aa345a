#ifndef CALIBD_CLIENT_CLI_REPORTS_FORECAST_REPORT_H_
#define CALIBD_CLIENT_CLI_REPORTS_FORECAST_REPORT_H_

#include <string>

#include "calibd/v1/calibration_service.pb.h"

namespace calibd::cli {

// Renders the evaluation of forecasts of a number as text. kind: normal, quantiles or samples.
// answer: with a reading.
[[nodiscard]] std::string DescribeForecasts(const std::string& kind, const v1::Evaluation& answer);

// A table of the cells: how many outcomes are in each, and how many the forecasts promise. Without
// outcomes, a sentence that says why. response: of a model of forecasts.
[[nodiscard]] std::string DescribeCells(const v1::GetCalibrationResponse& response);

}  // namespace calibd::cli

#endif  // CALIBD_CLIENT_CLI_REPORTS_FORECAST_REPORT_H_
