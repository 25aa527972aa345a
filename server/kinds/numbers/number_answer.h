#ifndef CALIBD_SERVER_KINDS_NUMBERS_NUMBER_ANSWER_H_
#define CALIBD_SERVER_KINDS_NUMBERS_NUMBER_ANSWER_H_

#include "calibd/core/forecast_cells.h"
#include "calibd/v1/calibration_service.pb.h"
#include "server/kinds/prediction_kind.h"

namespace calibd::server {

// See PredictionKind::Describe: the scores of the forecasts.
void DescribeNumbers(const DescribedModel& model, v1::GetCalibrationResponse& response);
// See PredictionKind::DescribeBucket. cells: of the model's forecasts.
void DescribeNumberBucket(const NumbersSpec& spec, const ForecastCells& cells,
                          const HistoryBucket& bucket, v1::HistoryBucket& out);

}  // namespace calibd::server

#endif  // CALIBD_SERVER_KINDS_NUMBERS_NUMBER_ANSWER_H_
