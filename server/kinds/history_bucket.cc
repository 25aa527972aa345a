#include "server/kinds/history_bucket.h"

#include <cstddef>
#include <optional>
#include <utility>
#include <vector>

#include "calibd/store/v1/store.pb.h"
#include "server/base/errors.h"
#include "server/watch/stored_numbers.h"

namespace calibd::server {
namespace {

struct StoredBin {
  std::size_t index = 0;
  ReliabilitySums::Bin sums;
};

void BinFields(StateFields& fields, StoredBin& bin) {
  using Stored = store::v1::HistoryBucket::Bin;
  fields(Stored::kIndexFieldNumber, bin.index);
  fields(Stored::kCountFieldNumber, bin.sums.count);
  fields(Stored::kCorrectFieldNumber, bin.sums.correct);
  fields(Stored::kConfidenceFieldNumber, bin.sums.confidence);
  fields(Stored::kVarianceFieldNumber, bin.sums.variance);
  fields.Require(bin.index < kReliabilityBinCount && bin.sums.count > 0 &&
                     bin.sums.correct <= bin.sums.count && bin.sums.confidence >= 0 &&
                     bin.sums.variance >= 0,
                 "has a bin that cannot be");
}

// The bins with observations.
void BinsFields(StateFields& fields, int number, ReliabilitySums& sums) {
  std::vector<StoredBin> bins;
  for (std::size_t i = 0; i < sums.bins.size(); ++i) {
    if (sums.bins[i].count > 0) bins.push_back({.index = i, .sums = sums.bins[i]});
  }
  fields.Each(number, bins, BinFields);
  if (!fields.ok()) return;
  for (const StoredBin& bin : bins) sums.bins[bin.index] = bin.sums;
}

void MarkFields(StateFields& fields, WatchMark& mark) {
  using Stored = store::v1::WatchMark;
  fields(Stored::kLog10EValueFieldNumber, mark.log10_e_value);
  fields(Stored::kMaxLog10EValueFieldNumber, mark.max_log10_e_value);
  fields(Stored::kDriftLog10StatisticFieldNumber, mark.drift_log10_statistic);
}

}  // namespace

bool HistoryBucket::empty() const noexcept {
  return rejected_rows == 0 && missing_labels == 0 && pairs.count == 0 && observations() == 0;
}

std::size_t HistoryBucket::bytes() const noexcept {
  return sizeof(*this) + forecasts.allocated_bytes() + labels.allocated_bytes();
}

void HistoryBucket::Merge(const HistoryBucket& later) {
  rejected_rows += later.rejected_rows;
  missing_labels += later.missing_labels;
  pairs.Merge(later.pairs);
  reliability.Merge(later.reliability);
  class_1.Merge(later.class_1);
  forecasts.Merge(later.forecasts);
  decisions.Merge(later.decisions);
  labels.Merge(later.labels);
  watch = later.watch;
}

void HistoryBucket::MergeScores(const HistoryBucket& later) {
  reliability.Merge(later.reliability);
  forecasts.Merge(later.forecasts);
}

void BucketFields(StateFields& fields, HistoryBucket& bucket) {
  using Stored = store::v1::HistoryBucket;
  RunningReliability& reliability = bucket.reliability;
  fields(Stored::kRejectedRowsFieldNumber, bucket.rejected_rows);
  fields(Stored::kMissingLabelsFieldNumber, bucket.missing_labels);
  fields.If(bucket.pairs.count > 0, Stored::kPairsFieldNumber, bucket.pairs, MomentsFields);
  BinsFields(fields, Stored::kBinsFieldNumber, reliability);
  BinsFields(fields, Stored::kClass1BinsFieldNumber, bucket.class_1);
  fields(Stored::kClass1SquareSumFieldNumber, bucket.class_1.square_sum);
  fields.If(bucket.forecasts.count > 0, Stored::kForecastsFieldNumber, bucket.forecasts,
            ForecastSumsFields);
  fields.If(bucket.decisions.gaps.count > 0, Stored::kDecisionsFieldNumber, bucket.decisions,
            DecisionFields);
  std::optional<LabelSums> labels;
  if (!bucket.labels.labels.empty()) labels = bucket.labels;
  fields(Stored::kLabelsFieldNumber, labels, LabelSumsFields);
  if (labels.has_value()) bucket.labels = *std::move(labels);
  fields(Stored::kLateLogIdFieldNumber, bucket.late_log_id);
  fields(Stored::kBrierFieldNumber, reliability.brier);
  fields(Stored::kLogLossFieldNumber, reliability.log_loss);
  fields(Stored::kSquareSumFieldNumber, reliability.square_sum);
  fields(Stored::kWatchFieldNumber, bucket.watch, MarkFields);
  fields.Require(reliability.brier >= 0 && reliability.log_loss >= 0 &&
                     reliability.square_sum >= 0 && bucket.class_1.square_sum >= 0,
                 "has sums of the history that cannot be");
}

std::string EncodeHistoryBucket(const HistoryBucket& bucket) {
  store::v1::HistoryBucket stored;
  SaveFields(bucket, stored, BucketFields);
  return stored.SerializeAsString();
}

absl::StatusOr<HistoryBucket> DecodeHistoryBucket(std::string_view data) {
  store::v1::HistoryBucket stored;
  HistoryBucket bucket;
  if (!stored.ParseFromArray(data.data(), static_cast<int>(data.size())) ||
      !RestoreFields(stored, bucket, BucketFields).ok()) {
    return MakeError(absl::StatusCode::kDataLoss, "STORE_DAMAGED",
                     "a bucket of the history cannot be read");
  }
  return bucket;
}

}  // namespace calibd::server
