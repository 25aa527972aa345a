#ifndef CALIBD_SERVER_KINDS_NUMBERS_NUMBER_PREDICTIONS_H_
#define CALIBD_SERVER_KINDS_NUMBERS_NUMBER_PREDICTIONS_H_

#include "server/kinds/prediction_kind.h"

namespace calibd::server {

// Predictions of numbers: see PredictionKind.
[[nodiscard]] const PredictionKind& NumberPredictions() noexcept;

}  // namespace calibd::server

#endif  // CALIBD_SERVER_KINDS_NUMBERS_NUMBER_PREDICTIONS_H_
