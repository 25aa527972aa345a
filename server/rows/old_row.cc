#include "server/rows/row_codec.h"

namespace calibd::server {
namespace {

void ConvertKind(store::v1::LoggedBatch& old, store::v1::LogRow& row) {
  if (old.opened()) {
    row.mutable_opened();
  } else if (old.rejected()) {
    row.mutable_rejected()->set_rows(old.rejected_rows());
  } else if (old.has_resolved_labels()) {
    row.mutable_resolved_labels()->Swap(old.mutable_resolved_labels());
  } else if (old.has_maturity()) {
    row.mutable_matured()->Swap(old.mutable_maturity());
  } else if (old.has_acknowledgement()) {
    row.mutable_acknowledged()->Swap(old.mutable_acknowledgement());
  } else if (!old.prediction_ids().empty() || old.duplicate_predictions() != 0) {
    store::v1::Predictions& predictions = *row.mutable_predictions();
    predictions.set_dropped_rows(old.dropped_rows());
    predictions.mutable_prediction_ids()->swap(*old.mutable_prediction_ids());
    predictions.set_duplicate_predictions(old.duplicate_predictions());
  } else {
    row.mutable_observations()->set_dropped_rows(old.dropped_rows());
  }
}

}  // namespace

bool ParseOldRow(std::string_view data, store::v1::LogRow& row) {
  store::v1::LoggedBatch old;
  const bool intact = old.ParsePartialFromArray(data.data(), static_cast<int>(data.size()));
  row.Clear();
  ConvertKind(old, row);
  row.set_elapsed_us(old.elapsed_us());
  if (!old.producer_id().empty()) {
    store::v1::ProducerPosition& producer = *row.mutable_producer();
    producer.set_producer_id(old.producer_id());
    producer.set_epoch(old.epoch());
    producer.set_sequence(old.sequence());
    producer.set_content_hash(old.content_hash());
  }
  if (old.probabilities_size() + old.float_probabilities_size() + old.labels_size() > 0) {
    store::v1::RowValues& values = *row.mutable_values();
    values.mutable_probabilities()->Swap(old.mutable_probabilities());
    values.mutable_float_probabilities()->Swap(old.mutable_float_probabilities());
    values.mutable_labels()->Swap(old.mutable_labels());
    values.mutable_group_values()->Swap(old.mutable_group_values());
  }
  return intact;
}

}  // namespace calibd::server
