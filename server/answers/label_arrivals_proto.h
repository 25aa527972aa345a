#ifndef CALIBD_SERVER_ANSWERS_LABEL_ARRIVALS_PROTO_H_
#define CALIBD_SERVER_ANSWERS_LABEL_ARRIVALS_PROTO_H_

#include "calibd/v1/calibration_service.pb.h"
#include "server/rows/label_arrivals.h"
#include "server/state/model.h"

namespace calibd::server {

void SetProto(const LabelCounts& counts, v1::LabelCounts& proto);
void SetProto(const SkippedRows& skipped, v1::SkippedRows& proto);

// Describes the label arrivals of a model with a label_grace, with warnings about missing and late
// labels.
void DescribeLabelArrivals(Model& model, const LabelArrivals& arrivals, v1::LabelArrivals& proto);

}  // namespace calibd::server

#endif  // CALIBD_SERVER_ANSWERS_LABEL_ARRIVALS_PROTO_H_
