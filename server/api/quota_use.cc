#include "server/api/quota_use.h"

namespace calibd::server {
namespace {

int ValueCount(const v1::Observations& sent) {
  switch (sent.predictions_case()) {
    case v1::Observations::kProbabilities:
      return sent.probabilities().values_size();
    case v1::Observations::kProbabilitiesFloat32:
      return sent.probabilities_float32().values_size();
    case v1::Observations::kLogits:
      return sent.logits().values_size();
    case v1::Observations::kLogitsFloat32:
      return sent.logits_float32().values_size();
    case v1::Observations::kForecasts:
      return sent.forecasts().values_size();
    case v1::Observations::PREDICTIONS_NOT_SET:
      break;
  }
  return 0;
}

int LabelsOfRow(const RowShape& shape) {
  return static_cast<int>(std::max<std::size_t>(shape.truths.labels, 1));
}

}  // namespace

std::uint64_t RowsForQuota(const v1::Observations& sent, const RowShape& shape) {
  // A row of two classes may have one value.
  const std::size_t width = sent.has_positive_class() ? 1 : shape.width;
  const int values = ValueCount(sent) / static_cast<int>(std::max<std::size_t>(width, 1));
  return static_cast<std::uint64_t>(
      std::max({1, values, sent.prediction_ids_size(), sent.labels_size() / LabelsOfRow(shape),
                sent.label_names_size(), sent.outcomes_size()}));
}

std::uint64_t RowsForQuota(const v1::Labels& sent, const RowShape& shape) {
  return static_cast<std::uint64_t>(
      std::max({1, sent.prediction_ids_size(), sent.labels_size() / LabelsOfRow(shape),
                sent.label_names_size(), sent.outcomes_size()}));
}

}  // namespace calibd::server
