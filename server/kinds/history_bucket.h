#ifndef CALIBD_SERVER_KINDS_HISTORY_BUCKET_H_
#define CALIBD_SERVER_KINDS_HISTORY_BUCKET_H_

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include "absl/status/statusor.h"
#include "calibd/core/decision_calibration.h"
#include "calibd/core/running_reliability.h"
#include "calibd/core/running_skce.h"
#include "server/kinds/labels/label_sums.h"
#include "server/kinds/numbers/forecast_sums.h"
#include "server/watch/state_fields.h"

namespace calibd::server {

// The statistics of a model's watch at one moment: see v1.Evidence and v1.Drift.
struct WatchMark {
  double log10_e_value = 0;
  double max_log10_e_value = 0;
  double drift_log10_statistic = 0;

  friend bool operator==(const WatchMark&, const WatchMark&) = default;
};

// Totals of a model over a span of time. Totals of adjacent spans can be added.
struct HistoryBucket {
  std::int64_t rejected_rows = 0;
  std::int64_t missing_labels = 0;
  // Moments of the terms h of pairs of observations in the canonical lens, paired as in the running
  // estimate of block size 2; of forecasts, instead those of the blocks of ForecastBlocks. A pair
  // or a block belongs to the bucket of its last observation.
  RunningMoments pairs;
  RunningReliability reliability;
  // Of the probability of class 1 for two classes; empty for other numbers of classes.
  ReliabilitySums class_1;
  // Of forecasts, which have no pairs and no reliability.
  ForecastSums forecasts{};
  // Of forecasts with a decision.
  DecisionTotals decisions{};
  // Of several labels, which have no pairs and no reliability.
  LabelSums labels{};
  // The state at the end of the span by the server's clock, or after the newest observation that
  // was added to the span later; unset for a model that is not monitored.
  std::optional<WatchMark> watch;
  // For a stored bucket: the row of the log of the newest snapshot that added to it, or 0.
  std::int64_t late_log_id = 0;

  [[nodiscard]] std::int64_t observations() const noexcept {
    return reliability.Total().count + forecasts.count + labels.rows();
  }
  [[nodiscard]] bool empty() const noexcept;
  // Bytes of memory with everything that it allocates.
  [[nodiscard]] std::size_t bytes() const noexcept;
  // later: the bucket of the next span, or observations that were counted later. May throw
  // bad_alloc if it has forecasts or labels and this bucket has none.
  void Merge(const HistoryBucket& later);
  // Merges only the scores of observations, which answers show over all time.
  void MergeScores(const HistoryBucket& later);

  friend bool operator==(const HistoryBucket&, const HistoryBucket&) = default;
};

// The fields of a store.v1.HistoryBucket, as StateFields visits them.
void BucketFields(StateFields& fields, HistoryBucket& bucket);

// Serializes the bucket as a store.v1.HistoryBucket.
[[nodiscard]] std::string EncodeHistoryBucket(const HistoryBucket& bucket);
// Errors: DataLoss if `data` is not a valid store.v1.HistoryBucket.
[[nodiscard]] absl::StatusOr<HistoryBucket> DecodeHistoryBucket(std::string_view data);

}  // namespace calibd::server

#endif  // CALIBD_SERVER_KINDS_HISTORY_BUCKET_H_
