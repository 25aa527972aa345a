#ifndef CALIBD_SERVER_KINDS_LABELS_LABEL_ANSWER_H_
#define CALIBD_SERVER_KINDS_LABELS_LABEL_ANSWER_H_

#include <span>
#include <string>

#include "server/kinds/prediction_kind.h"

namespace calibd::server {

// See PredictionKind::Describe: the labels if the model is monitored, and why there is nothing to
// say yet.
void DescribeLabels(const DescribedModel& model, v1::GetCalibrationResponse& response);

// See PredictionKind::DescribeBucket.
void DescribeLabelBucket(const LabelsSpec& spec, const HistoryBucket& bucket,
                         std::span<const std::string> labels, v1::HistoryBucket& out);

}  // namespace calibd::server

#endif  // CALIBD_SERVER_KINDS_LABELS_LABEL_ANSWER_H_
