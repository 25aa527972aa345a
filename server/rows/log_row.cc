#include "server/rows/log_row.h"

#include "calibd/core/binary_predictions.h"

namespace calibd::server {

void KeepOnly(std::span<const std::uint32_t> indices, Truths& truths) {
  KeepOnly(indices, truths.labels, truths.each);
  KeepOnly(indices, truths.outcomes);
}

void KeepRows(std::span<const std::uint32_t> indices, RowValues& values) {
  KeepOnly(indices, values.values, values.width);
  KeepOnly(indices, values.baseline_values, values.width);
  KeepOnly(indices, values.features, values.feature_count);
  KeepOnly(indices, values.truths);
  KeepOnly(indices, values.id_hashes);
  if (values.times_s.size() > 1) KeepOnly(indices, values.times_s);
  // One value belongs to all rows.
  if (values.group_values.size() > 1) KeepOnly(indices, values.group_values);
}

std::vector<std::int32_t> CountedClasses(const RowValues& values, std::size_t class_count) {
  std::vector<std::int32_t> classes;
  if (class_count == 1) {
    classes.resize(values.values.size() / values.width);
    return classes;
  }
  std::span<const double> rest(values.values);
  classes.reserve(rest.size() / values.width);
  for (; !rest.empty(); rest = rest.subspan(values.width)) {
    classes.push_back(static_cast<std::int32_t>(PredictedClass(rest.first(values.width))));
  }
  return classes;
}

const RowValues* LogRow::values() const noexcept {
  const auto* const predictions = As<PredictionsRow>();
  return predictions != nullptr ? &predictions->values : counted();
}

const RowValues* LogRow::counted() const noexcept {
  if (const auto* const observations = As<ObservationsRow>()) return &observations->values;
  const auto* const matured = As<MaturedRow>();
  return matured != nullptr ? &matured->values : nullptr;
}

std::span<const PredictionId> LogRow::tracked_ids() const noexcept {
  if (const auto* const predictions = As<PredictionsRow>()) return predictions->ids;
  const auto* const labels = As<LabelsRow>();
  return labels != nullptr ? std::span<const PredictionId>(labels->ids)
                           : std::span<const PredictionId>();
}

bool LogRow::tracked() const noexcept {
  const auto* const labels = As<LabelsRow>();
  return !tracked_ids().empty() || (labels != nullptr && !labels->waiting_ids.empty());
}

bool LogRow::needs_tracker() const noexcept {
  return As<PredictionsRow>() != nullptr || As<LabelsRow>() != nullptr ||
         As<MaturedRow>() != nullptr;
}

std::int64_t LogRow::rows() const noexcept {
  const auto* const rejected = As<RejectedRow>();
  return rejected != nullptr ? rejected->rows
                             : static_cast<std::int64_t>(tracked_ids().size() + counted_rows());
}

absl::Status LogRow::validity() const {
  const auto* const rejected = As<RejectedRow>();
  return rejected != nullptr ? rejected->reason : absl::OkStatus();
}

std::size_t LogRow::bytes() const noexcept {
  std::size_t bytes = tracked_ids().size_bytes();
  if (const RowValues* const all = values()) {
    bytes += all->values.size() * sizeof(double) + all->truths.bytes();
    bytes += (all->times_s.size() + all->id_hashes.size()) * sizeof(std::int64_t);
    for (const std::string& value : all->group_values) bytes += sizeof(std::string) + value.size();
    bytes += (all->baseline_values.size() + all->features.size()) * sizeof(double);
  }
  if (const auto* const predictions = As<PredictionsRow>()) {
    bytes += predictions->predicted_classes.size() * sizeof(std::int32_t);
  }
  if (const auto* const labels = As<LabelsRow>()) {
    bytes += labels->truths.bytes() + labels->waiting_truths.bytes() +
             labels->waiting_ids.size() * sizeof(PredictionId);
  }
  return bytes;
}

bool ReplayPosition(const LogRow& row, std::int64_t time_us, ProducerCursors& cursors) {
  if (!row.position.has_value()) return true;
  if (row.As<EndedRow>() == nullptr) {
    return cursors.Replay(*row.position, row.batch_hash(), time_us);
  }
  cursors.End(*row.position, time_us);
  return true;
}

}  // namespace calibd::server
