#ifndef CALIBD_SERVER_KINDS_CLASSES_CLASS_ANSWER_H_
#define CALIBD_SERVER_KINDS_CLASSES_CLASS_ANSWER_H_

#include <string>

#include "calibd/v1/calibration_service.pb.h"
#include "server/kinds/prediction_kind.h"

namespace calibd::server {

// See PredictionKind::Describe: the scores, the comparison and the estimates of all lenses.
void DescribeClasses(const DescribedModel& model, v1::GetCalibrationResponse& response);
// See PredictionKind::DescribeBucket.
void DescribeClassBucket(const HistoryBucket& bucket, v1::HistoryBucket& out);
// See PredictionKind::NoWatchReason.
[[nodiscard]] std::string NoClassWatchReason(const ModelDeclaration& declaration,
                                             const KindSnapshot& snapshot);

}  // namespace calibd::server

#endif  // CALIBD_SERVER_KINDS_CLASSES_CLASS_ANSWER_H_
