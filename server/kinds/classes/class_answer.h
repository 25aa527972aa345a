#ifndef CALIBD_SERVER_KINDS_CLASSES_CLASS_ANSWER_H_
#define CALIBD_SERVER_KINDS_CLASSES_CLASS_ANSWER_H_

#include <chrono>
#include <cstdint>

#include "calibd/v1/calibration_service.pb.h"
#include "calibd/v1/evaluation.pb.h"
#include "server/kinds/prediction_kind.h"

namespace calibd::server {

// Describes the observations and the time from which a number of a fixed-n method was computed.
// Observations are numbered from 1.
void DescribeProvenance(const ModelDeclaration& declaration, std::int64_t first_observation,
                        std::int64_t last_observation, std::chrono::system_clock::time_point time,
                        v1::Provenance& provenance);

// See PredictionKind::Describe: the scores, the comparison and the estimates of all lenses.
void DescribeClasses(const DescribedModel& model, v1::GetCalibrationResponse& response);
// See PredictionKind::DescribeBucket.
void DescribeClassBucket(const HistoryBucket& bucket, v1::HistoryBucket& out);
// See PredictionKind::NoWatchReason.
[[nodiscard]] std::string NoClassWatchReason(const ModelDeclaration& declaration,
                                             const KindSnapshot& snapshot);

}  // namespace calibd::server

#endif  // CALIBD_SERVER_KINDS_CLASSES_CLASS_ANSWER_H_
