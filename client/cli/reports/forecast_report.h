#ifndef CALIBD_CLIENT_CLI_REPORTS_FORECAST_REPORT_H_
#define CALIBD_CLIENT_CLI_REPORTS_FORECAST_REPORT_H_

#include <cstdint>
#include <string>

#include "calibd/v1/calibration_service.pb.h"

namespace calibd::cli {

// Renders the evaluation of forecasts of a number as text. kind: normal, quantiles or samples.
// first_observation: the number of the first one within its model, or 0 for those of a file.
[[nodiscard]] std::string DescribeForecasts(const std::string& kind,
                                            const v1::ForecastEvaluation& evaluation,
                                            std::int64_t first_observation = 0);

// Where the outcomes of a cell are, such as "above the 99.9 % quantile".
[[nodiscard]] std::string CellPlace(const v1::ForecastCell& cell);

// A table of the cells: how many outcomes are in each, and how many the forecasts promise. Without
// outcomes, a sentence that says why. response: of a model of forecasts.
[[nodiscard]] std::string DescribeCells(const v1::GetCalibrationResponse& response);
// An expected number of outcomes, such as "0.4" or "1000".
[[nodiscard]] std::string ExpectedCount(double count);

// How far forecasts are too high or too low, such as "0.4 standard deviations too low". Empty if
// the mean is within four standard errors of 0, as for calibrated forecasts. mean,
// standard_deviation: of (outcome - mean) / standard deviation of that many forecasts.
[[nodiscard]] std::string BiasText(double mean, double standard_deviation,
                                   std::int64_t observations);
// The same of forecasts that are not Normal, from the Normal distribution that fits their outcomes
// best.
[[nodiscard]] std::string BiasText(const v1::ForecastDirection& direction,
                                   std::int64_t observations);

}  // namespace calibd::cli

#endif  // CALIBD_CLIENT_CLI_REPORTS_FORECAST_REPORT_H_
