#include "server/kinds/history_bucket.h"

#include <cmath>

#include "server/base/errors.h"
#include "server/watch/stored_numbers.h"

namespace calibd::server {
namespace {

bool IsNonNegative(double value) { return std::isfinite(value) && value >= 0; }

using StoredBins = google::protobuf::RepeatedPtrField<store::v1::HistoryBucket::Bin>;

void PutBins(const ReliabilitySums& sums, StoredBins& out) {
  for (std::size_t i = 0; i < sums.bins.size(); ++i) {
    const ReliabilitySums::Bin& bin = sums.bins[i];
    if (bin.count == 0) continue;
    store::v1::HistoryBucket::Bin& stored = *out.Add();
    stored.set_index(static_cast<std::int32_t>(i));
    stored.set_count(bin.count);
    stored.set_correct(bin.correct);
    stored.set_confidence(bin.confidence);
    stored.set_variance(bin.variance);
  }
}

// Returns false if `stored` is invalid.
bool GetBins(const StoredBins& stored, ReliabilitySums& out) {
  for (const store::v1::HistoryBucket::Bin& bin : stored) {
    const auto index = static_cast<std::size_t>(bin.index());
    if (bin.index() < 0 || index >= kReliabilityBinCount || bin.count() <= 0 || bin.correct() < 0 ||
        bin.correct() > bin.count() || !IsNonNegative(bin.confidence()) ||
        !IsNonNegative(bin.variance())) {
      return false;
    }
    out.bins[index] = {.count = bin.count(),
                       .correct = bin.correct(),
                       .confidence = bin.confidence(),
                       .variance = bin.variance()};
  }
  return true;
}

}  // namespace

bool HistoryBucket::empty() const noexcept {
  return rejected_rows == 0 && missing_labels == 0 && pairs.count == 0 && observations() == 0;
}

void HistoryBucket::Merge(const HistoryBucket& later) {
  rejected_rows += later.rejected_rows;
  missing_labels += later.missing_labels;
  pairs.Merge(later.pairs);
  reliability.Merge(later.reliability);
  class_1.Merge(later.class_1);
  forecasts.Merge(later.forecasts);
  decisions.Merge(later.decisions);
  watch = later.watch;
}

void HistoryBucket::MergeScores(const HistoryBucket& later) {
  reliability.Merge(later.reliability);
  forecasts.Merge(later.forecasts);
}

void HistoryBucket::Save(store::v1::HistoryBucket& out) const {
  out.set_rejected_rows(rejected_rows);
  out.set_missing_labels(missing_labels);
  if (pairs.count > 0) PutMoments(pairs, *out.mutable_pairs());
  PutBins(reliability, *out.mutable_bins());
  PutBins(class_1, *out.mutable_class_1_bins());
  out.set_class_1_square_sum(class_1.square_sum);
  if (forecasts.count > 0) PutSums(forecasts, *out.mutable_forecasts());
  if (decisions.gaps.count > 0) PutDecisions(decisions, *out.mutable_decisions());
  out.set_late_log_id(late_log_id);
  out.set_brier(reliability.brier);
  out.set_log_loss(reliability.log_loss);
  if (observations() > 0) out.set_square_sum(reliability.square_sum);
  if (watch.has_value()) {
    store::v1::WatchMark& mark = *out.mutable_watch();
    mark.set_log10_e_value(watch->log10_e_value);
    mark.set_max_log10_e_value(watch->max_log10_e_value);
    mark.set_drift_log10_statistic(watch->drift_log10_statistic);
  }
}

bool HistoryBucket::Restore(const store::v1::HistoryBucket& stored) {
  rejected_rows = stored.rejected_rows();
  missing_labels = stored.missing_labels();
  late_log_id = stored.late_log_id();
  pairs = GetMoments(stored.pairs());
  reliability.brier = stored.brier();
  reliability.log_loss = stored.log_loss();
  if (rejected_rows < 0 || missing_labels < 0 || pairs.count < 0 || !std::isfinite(pairs.mean) ||
      !IsNonNegative(pairs.m2) || !IsNonNegative(reliability.brier) ||
      !IsNonNegative(reliability.log_loss) || !IsNonNegative(stored.square_sum()) ||
      !IsNonNegative(stored.class_1_square_sum()) || !GetBins(stored.bins(), reliability) ||
      !GetBins(stored.class_1_bins(), class_1) || !GetSums(stored.forecasts(), forecasts) ||
      !GetDecisions(stored.decisions(), decisions)) {
    return false;
  }
  class_1.square_sum = stored.class_1_square_sum();
  reliability.square_sum = stored.square_sum();
  if (stored.has_watch()) {
    const store::v1::WatchMark& mark = stored.watch();
    watch = {.log10_e_value = mark.log10_e_value(),
             .max_log10_e_value = mark.max_log10_e_value(),
             .drift_log10_statistic = mark.drift_log10_statistic()};
    return std::isfinite(watch->log10_e_value) && std::isfinite(watch->max_log10_e_value) &&
           std::isfinite(watch->drift_log10_statistic);
  }
  return true;
}

std::string EncodeHistoryBucket(const HistoryBucket& bucket) {
  store::v1::HistoryBucket stored;
  bucket.Save(stored);
  return stored.SerializeAsString();
}

absl::StatusOr<HistoryBucket> DecodeHistoryBucket(std::string_view data) {
  store::v1::HistoryBucket stored;
  HistoryBucket bucket;
  if (!stored.ParseFromArray(data.data(), static_cast<int>(data.size())) ||
      !CheckStoredNumbers(stored).ok() || !bucket.Restore(stored)) {
    return MakeError(absl::StatusCode::kDataLoss, "STORE_DAMAGED",
                     "a bucket of the history cannot be read");
  }
  return bucket;
}

}  // namespace calibd::server
