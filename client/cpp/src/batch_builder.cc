#include "batch_builder.h"

#include <algorithm>
#include <type_traits>
#include <utility>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"

namespace calibd::client {
namespace {

// Upper bound of what a message takes beside its values and labels: the tags and
// lengths of five nested fields, the sequence and the dropped rows.
constexpr std::int64_t kEnvelopeBytes = 96;
// A label below 100000 takes at most three bytes as a varint; two spare for more.
constexpr std::int64_t kLabelBytes = 5;

std::size_t RowsThatFit(const v1::StreamObservationsResponse::Opened& limits, std::int32_t max_rows,
                        std::int64_t value_bytes) {
  const std::int64_t row_bytes = value_bytes * limits.class_count() + kLabelBytes;
  std::int64_t rows = (limits.max_bytes_per_batch() - kEnvelopeBytes) / row_bytes;
  rows = std::min<std::int64_t>(rows, limits.max_rows_per_batch());
  if (max_rows > 0) rows = std::min<std::int64_t>(rows, max_rows);
  return static_cast<std::size_t>(std::max<std::int64_t>(rows, 0));
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

}  // namespace

absl::StatusOr<BatchBuilder> BatchBuilder::Create(
    const v1::StreamObservationsResponse::Opened& limits, std::int32_t max_rows) {
  const std::size_t double_rows = RowsThatFit(limits, max_rows, sizeof(double));
  if (limits.class_count() < 2 || double_rows == 0) {
    return absl::FailedPreconditionError(absl::StrCat(
        "one prediction of ", limits.class_count(),
        " classes does not fit into the server's limit of ", limits.max_bytes_per_batch(),
        " bytes and ", limits.max_rows_per_batch(), " rows a batch"));
  }
  return BatchBuilder(double_rows, RowsThatFit(limits, max_rows, sizeof(float)));
}

BatchBuilder::BatchBuilder(std::size_t max_double_rows, std::size_t max_float_rows)
    : max_double_rows_(max_double_rows), max_float_rows_(max_float_rows) {}

template <typename T>
bool BatchBuilder::NeedsNewBatch(PredictionKind kind) const {
  if (empty()) return false;
  const std::size_t max_rows = std::is_same_v<T, double> ? max_double_rows_ : max_float_rows_;
  return batch_.row_numbers.size() >= max_rows ||
         batch_.request.batch().observations().predictions_case() != FieldOf<T>(kind);
}

template <typename T>
void BatchBuilder::Add(PredictionKind kind, std::span<const T> row, std::int32_t label,
                       std::int64_t row_number) {
  v1::Observations& observations = *batch_.request.mutable_batch()->mutable_observations();
  MutableValues<T>(kind, observations)->Add(row.begin(), row.end());
  observations.add_labels(label);
  batch_.row_numbers.push_back(row_number);
}

OutgoingBatch BatchBuilder::Take() {
  batch_.request.mutable_batch()->mutable_observations()->set_dropped_rows(
      std::exchange(dropped_rows_, 0));
  return std::exchange(batch_, OutgoingBatch());
}

template bool BatchBuilder::NeedsNewBatch<double>(PredictionKind) const;
template bool BatchBuilder::NeedsNewBatch<float>(PredictionKind) const;
template void BatchBuilder::Add<double>(PredictionKind, std::span<const double>, std::int32_t,
                                        std::int64_t);
template void BatchBuilder::Add<float>(PredictionKind, std::span<const float>, std::int32_t,
                                       std::int64_t);

}  // namespace calibd::client
