#include "client/offline/labels.h"

#include <cstddef>

#include "calibd/convert/multilabel.h"
#include "calibd/core/serial_dependence.h"

namespace calibd::offline {

v1::MultilabelCalibration EvaluateLabels(const MultilabelBatch& batch,
                                         std::span<const std::string> names,
                                         const LabelReportOptions& options, double tolerance) {
  LabelErrors errors(names.size());
  LabelEvidence evidence(names.size(), tolerance);
  errors.Add(batch);
  evidence.Add(batch);
  v1::MultilabelCalibration calibration =
      convert::ToProto(ReportOnLabels(errors, evidence.Read(), options), options, names);
  SerialDependence dependence;
  for (std::size_t row = 0; row < batch.size(); ++row) {
    const MultilabelBatch one = batch.rows(row, 1);
    dependence.AddLabels(RowDeviation(batch, row), one.probabilities, one.truths);
  }
  calibration.set_dependence_found_at(dependence.reached_at());
  *calibration.mutable_reading() = convert::ReadingOf(calibration);
  convert::AddTable(calibration);
  return calibration;
}

}  // namespace calibd::offline
