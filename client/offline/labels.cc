#include "client/offline/labels.h"

#include <algorithm>
#include <cstddef>
#include <vector>

#include "calibd/convert/evaluation.h"
#include "calibd/convert/multilabel.h"
#include "calibd/core/serial_dependence.h"

namespace calibd::offline {
namespace {

// As many labels as a server gives diagrams of in one answer.
constexpr std::size_t kMostDiagrams = 100;

}  // namespace

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
  convert::AddTable(calibration, /*is_whole=*/true);
  std::vector<std::size_t> diagrams = convert::TableOrder(calibration);
  diagrams.resize(std::min(diagrams.size(), kMostDiagrams));
  for (const std::size_t k : diagrams) {
    v1::LabelCalibration& label = *calibration.mutable_labels(static_cast<int>(k));
    *label.mutable_reliability() = convert::ToProto(errors.labels[k]);
  }
  return calibration;
}

}  // namespace calibd::offline
