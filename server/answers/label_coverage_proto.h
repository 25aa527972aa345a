#ifndef CALIBD_SERVER_ANSWERS_LABEL_COVERAGE_PROTO_H_
#define CALIBD_SERVER_ANSWERS_LABEL_COVERAGE_PROTO_H_

#include "calibd/v1/calibration_service.pb.h"
#include "server/rows/label_coverage.h"
#include "server/state/model.h"

namespace calibd::server {

void SetProto(const LabelCounts& counts, v1::LabelCounts& proto);
void SetProto(const SkippedRows& skipped, v1::SkippedRows& proto);

// Describes the label coverage of a model with a label_grace, with warnings about missing and late
// labels.
void DescribeLabelCoverage(Model& model, const LabelCoverage& coverage, v1::LabelCoverage& proto);

}  // namespace calibd::server

#endif  // CALIBD_SERVER_ANSWERS_LABEL_COVERAGE_PROTO_H_
