#ifndef CALIBD_CLIENT_OFFLINE_LABELS_H_
#define CALIBD_CLIENT_OFFLINE_LABELS_H_

#include <span>
#include <string>

#include "calibd/core/label_report.h"
#include "calibd/core/multilabel.h"
#include "calibd/v1/multilabel.pb.h"

namespace calibd::offline {

// Computes the errors and the evidence of several labels, whether neighbouring rows go together,
// and what all this says. batch: valid, the oldest row first. names: of the labels, in their order.
// tolerance: see LabelEvidence.
[[nodiscard]] v1::MultilabelCalibration EvaluateLabels(const MultilabelBatch& batch,
                                                       std::span<const std::string> names,
                                                       const LabelReportOptions& options,
                                                       double tolerance);

}  // namespace calibd::offline

#endif  // CALIBD_CLIENT_OFFLINE_LABELS_H_
