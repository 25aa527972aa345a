#ifndef CALIBD_SERVER_ROWS_LOG_ROW_H_
#define CALIBD_SERVER_ROWS_LOG_ROW_H_

#include <algorithm>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <variant>
#include <vector>

#include "absl/status/status.h"
#include "calibd/core/prediction_batch.h"
#include "calibd/core/validation.h"
#include "server/model/declaration_update.h"
#include "server/rows/group_values.h"
#include "server/rows/prediction_id.h"
#include "server/rows/prediction_tracker.h"
#include "server/rows/producer_cursors.h"
#include "server/rows/row_extras.h"
#include "server/rows/row_view.h"
#include "server/rows/truths.h"

namespace calibd::server {

// n predictions of a model.
struct RowValues {
  // n x width, row-major: the probabilities of the classes, or the values of the forecasts.
  std::vector<double> values;
  std::size_t width = 0;
  // True if each value is a single-precision number; false if this is not known.
  bool single_precision = false;
  // Of n predictions; of n or none if they are pending.
  Truths truths;
  // Values of the model's group tag: n, one for all, or none.
  std::vector<std::string> group_values;
  // Times of the predictions in seconds since 1970: n, one for all, or none. kNoTime: no time.
  static constexpr std::int64_t kNoTime = 0;
  std::vector<std::int64_t> times_s;
  // PredictionId::low of each row; n or none. Only for matured predictions.
  std::vector<std::uint64_t> id_hashes;
  // n x width values of the model's baseline; empty for a model without a baseline.
  std::vector<double> baseline_values;
  // n x feature_count features; empty for a model without features.
  std::vector<double> features;
  std::size_t feature_count = 0;

  // Number of predictions with a truth.
  [[nodiscard]] std::size_t labelled() const noexcept { return truths.size(); }
  // Only with truths.
  [[nodiscard]] RowView rows() const noexcept { return {values, width, truths, extras()}; }
  [[nodiscard]] PredictionBatch view() const noexcept { return {values, truths.labels, width}; }
  [[nodiscard]] PredictionBatch baseline() const noexcept {
    return {baseline_values, truths.labels, width};
  }
  // The time of prediction i.
  [[nodiscard]] std::int64_t time_s(std::size_t i) const noexcept {
    return times_s.empty() ? kNoTime : times_s[times_s.size() == 1 ? 0 : i];
  }
  [[nodiscard]] GroupValues groups() const noexcept { return GroupValues(group_values); }
  [[nodiscard]] RowExtras extras() const noexcept {
    return {id_hashes, features, feature_count, groups()};
  }
};

// Moves the values at the ascending indices to the front, `width` values each, and drops the rest.
template <typename T>
void KeepOnly(std::span<const std::uint32_t> indices, std::vector<T>& values,
              std::size_t width = 1) {
  if (values.empty()) return;
  auto to = values.begin();
  for (const std::uint32_t index : indices) {
    const auto from = values.begin() + static_cast<std::ptrdiff_t>(index * width);
    to = from == to ? to + static_cast<std::ptrdiff_t>(width)
                    : std::move(from, from + static_cast<std::ptrdiff_t>(width), to);
  }
  values.erase(to, values.end());
}
void KeepOnly(std::span<const std::uint32_t> indices, Truths& truths);
// Keeps the predictions with these ascending indices.
void KeepRows(std::span<const std::uint32_t> indices, RowValues& values);

// Returns the class of each prediction among those whose labels are counted apart: the most
// probable one, the first one on ties; 0 if there is only one. Cost: O(n m).
[[nodiscard]] std::vector<std::int32_t> CountedClasses(const RowValues& values,
                                                       std::size_t class_count);

// What a producer dropped before sending a batch.
struct Dropped {
  std::int64_t rows = 0;
  // Labels by id.
  std::int64_t labels = 0;

  [[nodiscard]] bool any() const noexcept { return rows > 0 || labels > 0; }
};

// A producer was opened, without a batch.
struct OpenedRow {};

// A producer ended: it sends no further batches.
struct EndedRow {};

// An invalid batch. It used up its number and changed nothing else.
struct RejectedRow {
  // Number of predictions or labels of the batch, without skipped rows. The log contains 0 for
  // labels.
  std::int64_t rows = 0;
  // The batch contains labels by id, which are not rejected rows of the model.
  bool labels = false;
  // As in ObservationsRow, if the batch is valid but has no valid row, or no row at all.
  Dropped dropped{};
  // OK if all rows were skipped.
  // Names the first invalid rows. A row that is read from the log does not contain the reason.
  absl::Status reason = absl::InvalidArgumentError("was rejected");
};

// Labelled predictions that are counted at once.
struct ObservationsRow {
  RowValues values;
  Dropped dropped{};
};

// Pending predictions with ids.
struct PredictionsRow {
  RowValues values;
  Dropped dropped{};
  // n ids, and the predicted classes.
  std::vector<PredictionId> ids;
  std::vector<std::int32_t> predicted_classes;
  // Number of predictions of the batch that are not in the row because their ids were known.
  std::int64_t duplicates = 0;
};

// Labels by id: a batch of them, the waiting labels of a batch of predictions that came later, or
// the end of the time of waiting labels.
struct LabelsRow {
  // The ids that matched a pending prediction; before the lookup, all ids of the batch.
  std::vector<PredictionId> ids;
  // Of each id.
  Truths truths;
  LabelCounts counts;
  // The labels that begin to wait for their predictions.
  std::vector<PredictionId> waiting_ids{};
  Truths waiting_truths{};
  // No label of a row up to this one waits any more; 0 if the row ends no time of waiting.
  std::int64_t ended_waiting_log_id = 0;
  // The log does not hold the classes of matched labels: recovery counts the pending predictions of
  // each class instead.
  LabelClasses classes;
};

// Predictions that matured. Those with a label are counted.
struct MaturedRow {
  // Values of the predictions with a label.
  RowValues values;
  // All predictions up to this row have matured.
  std::int64_t through_log_id = 0;
  // Predicted classes of the predictions without a label.
  std::vector<std::int32_t> missing_predicted_classes;
};

// A user acknowledged an alarm.
struct AcknowledgedRow {
  std::int64_t alarm_id = 0;
  std::string note;
};

// Invalid rows that were left out of a batch.
struct SkippedRows {
  std::int64_t rows = 0;
  // The first of them. A row that is read from the log does not contain them.
  std::vector<Violation> violations;
};

// The declaration was updated.
struct UpdatedRow {
  DeclarationUpdate update;
};

// A row of the log. Its effect on its model depends only on it and on the rows before it.
struct LogRow {
  // The log never holds the default value.
  std::variant<OpenedRow, RejectedRow, ObservationsRow, PredictionsRow, LabelsRow, MaturedRow,
               AcknowledgedRow, EndedRow, UpdatedRow>
      kind;
  // The producer and number of a batch, or the producer that was opened or ended, with the number
  // of its last batch; otherwise unset.
  std::optional<ProducerPosition> position;
  // Hash of the complete batch as it was sent; see ProducerCursors.
  std::uint64_t content_hash = 0;
  SkippedRows skipped;
  // Time at which the row was appended, see LogClock.
  std::chrono::microseconds elapsed{};

  template <typename Kind>
  [[nodiscard]] const Kind* As() const noexcept {
    return std::get_if<Kind>(&kind);
  }
  template <typename Kind>
  [[nodiscard]] Kind* As() noexcept {
    return std::get_if<Kind>(&kind);
  }

  // The predictions in the row; null for kinds without predictions.
  [[nodiscard]] const RowValues* values() const noexcept;
  // The observations that are counted with this row; null for kinds without observations.
  [[nodiscard]] const RowValues* counted() const noexcept;
  [[nodiscard]] std::size_t counted_rows() const noexcept {
    return counted() == nullptr ? 0 : counted()->labelled();
  }
  // The ids because of which the tracker of predictions needs the row.
  [[nodiscard]] std::span<const PredictionId> tracked_ids() const noexcept;
  [[nodiscard]] bool tracked() const noexcept;
  // True for rows that exist only in the log of a model with a label_grace.
  [[nodiscard]] bool needs_tracker() const noexcept;
  // The content hash of a batch, unset for a row that only opens or ends a producer.
  [[nodiscard]] std::optional<std::uint64_t> batch_hash() const noexcept {
    const bool is_batch = As<OpenedRow>() == nullptr && As<EndedRow>() == nullptr;
    return is_batch ? std::optional(content_hash) : std::nullopt;
  }
  // Number of predictions or labels of the batch.
  [[nodiscard]] std::int64_t rows() const noexcept;
  // OK, or the reason why the batch is invalid.
  [[nodiscard]] absl::Status validity() const;
  // Memory that the row occupies, in bytes.
  [[nodiscard]] std::size_t bytes() const noexcept;
};

// Replays the position of a row of the log that was appended at time_us: see
// ProducerCursors::Replay.
[[nodiscard]] bool ReplayPosition(const LogRow& row, std::int64_t time_us,
                                  ProducerCursors& cursors);

}  // namespace calibd::server

#endif  // CALIBD_SERVER_ROWS_LOG_ROW_H_
