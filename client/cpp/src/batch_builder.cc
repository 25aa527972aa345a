#include "batch_builder.h"

#include <algorithm>
#include <type_traits>
#include <utility>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"

namespace calibd::client {
namespace {

// Upper bound of the size of a message without its values and labels: the tags and
// lengths of seven nested fields, the sequence, and the dropped rows and labels.
constexpr std::int64_t kEnvelopeBytes = 124;
// A label below 100000 takes at most three bytes as a varint; larger ones at most five. A missing
// truth, -1, takes ten.
constexpr std::size_t kLabelBytes = 5;
constexpr std::size_t kTruthBytes = 10;
// Tag and length of an id or a group value.
constexpr std::size_t kTextEnvelopeBytes = 3;

// A nested message with its seconds, which take at most ten bytes.
constexpr std::size_t kTimeBytes = 13;

std::size_t TextBytes(std::string_view text) {
  return text.empty() ? 0 : kTextEnvelopeBytes + text.size();
}

// label_bytes: of each label of the row.
template <typename T>
std::size_t BytesOf(const PredictionRow<T>& row, std::size_t label_bytes) {
  return row.values.size_bytes() + row.baseline.size_bytes() + row.labels.size() * label_bytes +
         TextBytes(row.id) + TextBytes(row.group) + (row.time.has_value() ? kTimeBytes : 0) +
         row.features.size_bytes();
}
std::size_t BytesOf(const ForecastRow& row, std::size_t /*label_bytes*/) {
  return row.values.size_bytes() + sizeof(double) + TextBytes(row.id) + TextBytes(row.group) +
         (row.time.has_value() ? kTimeBytes : 0) + row.features.size_bytes();
}
std::size_t BytesOf(const OutcomeRow& row, std::size_t /*label_bytes*/) {
  return sizeof(double) + TextBytes(row.id);
}
std::size_t BytesOf(const LabelRow& row, std::size_t label_bytes) {
  return row.labels.size() * label_bytes + TextBytes(row.id);
}

template <typename T>
v1::Observations::PredictionsCase FieldOf(PredictionKind kind) {
  const bool logits = kind == PredictionKind::kLogits;
  if constexpr (std::is_same_v<T, double>) {
    return logits ? v1::Observations::kLogits : v1::Observations::kProbabilities;
  } else {
    return logits ? v1::Observations::kLogitsFloat32 : v1::Observations::kProbabilitiesFloat32;
  }
}

template <typename T>
auto* MutableValues(PredictionKind kind, v1::Observations& observations) {
  const bool logits = kind == PredictionKind::kLogits;
  if constexpr (std::is_same_v<T, double>) {
    return (logits ? observations.mutable_logits() : observations.mutable_probabilities())
        ->mutable_values();
  } else {
    return (logits ? observations.mutable_logits_float32()
                   : observations.mutable_probabilities_float32())
        ->mutable_values();
  }
}

template <typename T>
auto* MutableBaseline(PredictionKind kind, v1::Observations& observations) {
  const bool logits = kind == PredictionKind::kLogits;
  if constexpr (std::is_same_v<T, double>) {
    return (logits ? observations.mutable_baseline_logits()
                   : observations.mutable_baseline_probabilities())
        ->mutable_values();
  } else {
    return (logits ? observations.mutable_baseline_logits_float32()
                   : observations.mutable_baseline_probabilities_float32())
        ->mutable_values();
  }
}

// True if the row has the same optional parts as the rows of the batch.
template <typename Row>
bool HasSameParts(const Row& row, const v1::Observations& observations) {
  return row.id.empty() == observations.prediction_ids().empty() &&
         row.group.empty() == observations.group_values().empty() &&
         row.time.has_value() == !observations.prediction_times().empty();
}

// True if the row has the same kind of content as the rows of the batch, which is not empty.
template <typename T>
bool IsOfSameKind(const PredictionRow<T>& row, const v1::StreamObservationsRequest::Batch& batch) {
  const v1::Observations& observations = batch.observations();
  return batch.has_observations() && observations.predictions_case() == FieldOf<T>(row.kind) &&
         row.labels.empty() == observations.labels().empty() && HasSameParts(row, observations);
}
bool IsOfSameKind(const ForecastRow& row, const v1::StreamObservationsRequest::Batch& batch) {
  const v1::Observations& observations = batch.observations();
  return batch.has_observations() && observations.has_forecasts() &&
         row.outcome.has_value() == (observations.outcomes_size() > 0) &&
         HasSameParts(row, observations);
}
bool IsOfSameKind(const OutcomeRow& /*row*/, const v1::StreamObservationsRequest::Batch& batch) {
  return batch.has_labels();
}
bool IsOfSameKind(const LabelRow& /*row*/, const v1::StreamObservationsRequest::Batch& batch) {
  return batch.has_labels();
}

template <typename Row>
void AppendParts(const Row& row, v1::Observations& observations) {
  if (!row.id.empty()) observations.add_prediction_ids(row.id.data(), row.id.size());
  if (!row.group.empty()) observations.add_group_values(row.group.data(), row.group.size());
  if (row.time.has_value()) {
    observations.add_prediction_times()->set_seconds(row.time->time_since_epoch().count());
  }
  if (!row.features.empty()) {
    observations.mutable_features()->mutable_values()->Add(row.features.begin(),
                                                           row.features.end());
  }
}

template <typename T>
void Append(const PredictionRow<T>& row, v1::StreamObservationsRequest::Batch& batch) {
  v1::Observations& observations = *batch.mutable_observations();
  MutableValues<T>(row.kind, observations)->Add(row.values.begin(), row.values.end());
  if (!row.baseline.empty()) {
    MutableBaseline<T>(row.kind, observations)->Add(row.baseline.begin(), row.baseline.end());
  }
  observations.mutable_labels()->Add(row.labels.begin(), row.labels.end());
  AppendParts(row, observations);
}
void Append(const ForecastRow& row, v1::StreamObservationsRequest::Batch& batch) {
  v1::Observations& observations = *batch.mutable_observations();
  observations.mutable_forecasts()->mutable_values()->Add(row.values.begin(), row.values.end());
  if (row.outcome.has_value()) observations.add_outcomes(*row.outcome);
  AppendParts(row, observations);
}
void Append(const OutcomeRow& row, v1::StreamObservationsRequest::Batch& batch) {
  v1::Labels& labels = *batch.mutable_labels();
  labels.add_prediction_ids(row.id.data(), row.id.size());
  labels.add_outcomes(row.outcome);
}
void Append(const LabelRow& row, v1::StreamObservationsRequest::Batch& batch) {
  v1::Labels& labels = *batch.mutable_labels();
  labels.add_prediction_ids(row.id.data(), row.id.size());
  labels.mutable_labels()->Add(row.labels.begin(), row.labels.end());
}

}  // namespace

std::size_t WidthOf(const v1::Forecast& forecast) {
  if (forecast.has_normal()) return 2;
  return forecast.has_quantiles() ? static_cast<std::size_t>(forecast.quantiles().levels_size())
                                  : static_cast<std::size_t>(forecast.samples().draws());
}

absl::StatusOr<BatchBuilder> BatchBuilder::Create(
    const v1::StreamObservationsResponse::Opened& limits, std::int32_t max_rows) {
  std::int64_t rows = limits.max_rows_per_batch();
  if (max_rows > 0) rows = std::min<std::int64_t>(rows, max_rows);
  const std::int64_t bytes = limits.max_bytes_per_batch() - kEnvelopeBytes;
  const bool forecasts = limits.has_forecast();
  const bool labels = limits.has_labels();
  const std::int64_t width =
      forecasts ? static_cast<std::int64_t>(WidthOf(limits.forecast()))
                : (labels ? limits.labels().names_size() : limits.classes().count());
  const std::size_t label_bytes = labels ? kTruthBytes : kLabelBytes;
  const std::size_t truth_bytes = label_bytes * static_cast<std::size_t>(labels ? width : 1);
  const std::int64_t row_bytes =
      std::int64_t{sizeof(double)} * width +
      static_cast<std::int64_t>(forecasts ? sizeof(double) : truth_bytes);
  if (width < (forecasts || labels ? 1 : 2) || rows < 1 || bytes < row_bytes) {
    return absl::FailedPreconditionError(absl::StrCat(
        "one prediction of ", width, forecasts ? " values" : (labels ? " labels" : " classes"),
        " does not fit into the server's limit of ", limits.max_bytes_per_batch(), " bytes and ",
        limits.max_rows_per_batch(), " rows a batch"));
  }
  return BatchBuilder(static_cast<std::size_t>(rows), static_cast<std::size_t>(bytes), label_bytes);
}

template <typename Row>
bool BatchBuilder::Fits(const Row& row) const {
  return BytesOf(row, label_bytes_) <= max_bytes_;
}

template <typename Row>
bool BatchBuilder::NeedsNewBatch(const Row& row) const {
  if (batch_.row_numbers.empty()) return false;
  return batch_.row_numbers.size() >= max_rows_ ||
         batch_.bytes + BytesOf(row, label_bytes_) > max_bytes_ ||
         !IsOfSameKind(row, batch_.request.batch());
}

template <typename Row>
void BatchBuilder::Add(const Row& row, std::int64_t row_number) {
  Append(row, *batch_.request.mutable_batch());
  batch_.row_numbers.push_back(row_number);
  batch_.bytes += BytesOf(row, label_bytes_);
}

OutgoingBatch BatchBuilder::Take() {
  if (!batch_.has_labels()) {
    const Dropped dropped = std::exchange(dropped_, {});
    v1::Observations& observations = *batch_.request.mutable_batch()->mutable_observations();
    observations.set_dropped_rows(dropped.rows);
    observations.set_dropped_labels(dropped.labels);
  }
  return std::exchange(batch_, OutgoingBatch());
}

template bool BatchBuilder::Fits(const PredictionRow<double>&) const;
template bool BatchBuilder::Fits(const PredictionRow<float>&) const;
template bool BatchBuilder::Fits(const LabelRow&) const;
template bool BatchBuilder::Fits(const ForecastRow&) const;
template bool BatchBuilder::Fits(const OutcomeRow&) const;
template bool BatchBuilder::NeedsNewBatch(const PredictionRow<double>&) const;
template bool BatchBuilder::NeedsNewBatch(const PredictionRow<float>&) const;
template bool BatchBuilder::NeedsNewBatch(const LabelRow&) const;
template bool BatchBuilder::NeedsNewBatch(const ForecastRow&) const;
template bool BatchBuilder::NeedsNewBatch(const OutcomeRow&) const;
template void BatchBuilder::Add(const PredictionRow<double>&, std::int64_t);
template void BatchBuilder::Add(const PredictionRow<float>&, std::int64_t);
template void BatchBuilder::Add(const LabelRow&, std::int64_t);
template void BatchBuilder::Add(const ForecastRow&, std::int64_t);
template void BatchBuilder::Add(const OutcomeRow&, std::int64_t);

}  // namespace calibd::client
