#include "server/ingest/logged_batch.h"

#include <algorithm>

#include "absl/strings/str_cat.h"
#include "calibd/store/v1/store.pb.h"
#include "server/errors.h"

namespace calibd::server {

std::string EncodeLogged(const DecodedBatch& batch,
                         const std::optional<ProducerPosition>& position) {
  store::v1::LoggedBatch logged;
  if (position.has_value()) {
    logged.set_producer_id(position->producer_id);
    logged.set_epoch(position->epoch);
    logged.set_sequence(position->sequence);
  }
  if (!batch.validity.ok()) {
    logged.set_rejected(true);
    logged.set_rejected_rows(batch.rows);
    return logged.SerializeAsString();
  }
  const std::vector<double>& values = batch.probabilities;
  const bool single = std::all_of(values.begin(), values.end(), [](double value) {
    return static_cast<double>(static_cast<float>(value)) == value;
  });
  if (single) {
    logged.mutable_float_probabilities()->Reserve(static_cast<int>(values.size()));
    for (const double value : values) {
      logged.mutable_float_probabilities()->AddAlreadyReserved(static_cast<float>(value));
    }
  } else {
    logged.mutable_probabilities()->Add(values.begin(), values.end());
  }
  logged.mutable_labels()->Add(batch.labels.begin(), batch.labels.end());
  logged.set_dropped_rows(batch.dropped_rows);
  return logged.SerializeAsString();
}

absl::StatusOr<DecodedBatch> DecodeLogged(std::string_view data, std::size_t class_count) {
  store::v1::LoggedBatch logged;
  const bool parsed = logged.ParseFromArray(data.data(), static_cast<int>(data.size()));
  const auto rows = static_cast<std::size_t>(logged.labels_size());
  const auto values = static_cast<std::size_t>(logged.probabilities_size()) +
                      static_cast<std::size_t>(logged.float_probabilities_size());
  const bool labels_fit = std::all_of(
      logged.labels().begin(), logged.labels().end(),
      [class_count](auto y) { return y >= 0 && static_cast<std::size_t>(y) < class_count; });
  if (!parsed || values != rows * class_count || !labels_fit || logged.rejected() != (rows == 0)) {
    return MakeError(absl::StatusCode::kDataLoss, "STORE_DAMAGED",
                     absl::StrCat("a batch of the log is not one of ", class_count, " classes"));
  }
  DecodedBatch batch;
  batch.class_count = class_count;
  if (logged.rejected()) {
    batch.validity = absl::InvalidArgumentError("was rejected");
    batch.rows = logged.rejected_rows();
    return batch;
  }
  batch.rows = logged.labels_size();
  batch.dropped_rows = logged.dropped_rows();
  batch.labels.assign(logged.labels().begin(), logged.labels().end());
  batch.probabilities.reserve(values);
  batch.probabilities.assign(logged.probabilities().begin(), logged.probabilities().end());
  batch.probabilities.insert(batch.probabilities.end(), logged.float_probabilities().begin(),
                             logged.float_probabilities().end());
  return batch;
}

}  // namespace calibd::server
