#ifndef CALIBD_SERVER_KINDS_LABELS_LABEL_PREDICTIONS_H_
#define CALIBD_SERVER_KINDS_LABELS_LABEL_PREDICTIONS_H_

#include "server/kinds/prediction_kind.h"

namespace calibd::server {

// Predictions of several labels: see PredictionKind.
[[nodiscard]] const PredictionKind& LabelPredictions() noexcept;

}  // namespace calibd::server

#endif  // CALIBD_SERVER_KINDS_LABELS_LABEL_PREDICTIONS_H_
