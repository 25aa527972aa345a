#ifndef CALIBD_SERVER_KINDS_CLASSES_CLASS_PREDICTIONS_H_
#define CALIBD_SERVER_KINDS_CLASSES_CLASS_PREDICTIONS_H_

#include "server/kinds/prediction_kind.h"

namespace calibd::server {

// Predictions of classes: see PredictionKind.
[[nodiscard]] const PredictionKind& ClassPredictions() noexcept;

}  // namespace calibd::server

#endif  // CALIBD_SERVER_KINDS_CLASSES_CLASS_PREDICTIONS_H_
