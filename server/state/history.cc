#include "server/state/history.h"

#include <algorithm>
#include <cmath>
#include <iterator>
#include <limits>
#include <utility>

#include "absl/strings/str_cat.h"
#include "server/base/errors.h"
#include "server/watch/stored_numbers.h"

namespace calibd::server {
namespace {

using std::chrono::sys_seconds;

sys_seconds StartOfSpan(sys_seconds time, HistoryResolution resolution) {
  const auto since = time.time_since_epoch() % SpanOf(resolution);
  // Rounds down, also before 1970.
  return time - (since.count() < 0 ? since + SpanOf(resolution) : since);
}

sys_seconds StartOfMinute(History::Time time) {
  return std::chrono::floor<std::chrono::minutes>(time);
}

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

void Put(const HistoryBucket& bucket, store::v1::HistoryBucket& out) {
  out.set_rejected_rows(bucket.rejected_rows);
  out.set_missing_labels(bucket.missing_labels);
  if (bucket.pairs.count > 0) PutMoments(bucket.pairs, *out.mutable_pairs());
  PutBins(bucket.reliability, *out.mutable_bins());
  PutBins(bucket.class_1, *out.mutable_class_1_bins());
  out.set_class_1_square_sum(bucket.class_1.square_sum);
  if (bucket.forecasts.count > 0) PutSums(bucket.forecasts, *out.mutable_forecasts());
  if (bucket.decisions.gaps.count > 0) PutDecisions(bucket.decisions, *out.mutable_decisions());
  out.set_late_log_id(bucket.late_log_id);
  out.set_brier(bucket.reliability.brier);
  out.set_log_loss(bucket.reliability.log_loss);
  if (bucket.observations() > 0) out.set_square_sum(bucket.reliability.square_sum);
  if (bucket.watch.has_value()) {
    store::v1::WatchMark& watch = *out.mutable_watch();
    watch.set_log10_e_value(bucket.watch->log10_e_value);
    watch.set_max_log10_e_value(bucket.watch->max_log10_e_value);
    watch.set_drift_log10_statistic(bucket.watch->drift_log10_statistic);
  }
}

// Returns false if `stored` is invalid.
bool Get(const store::v1::HistoryBucket& stored, HistoryBucket& out) {
  out.rejected_rows = stored.rejected_rows();
  out.missing_labels = stored.missing_labels();
  out.late_log_id = stored.late_log_id();
  out.pairs = GetMoments(stored.pairs());
  out.reliability.brier = stored.brier();
  out.reliability.log_loss = stored.log_loss();
  if (out.rejected_rows < 0 || out.missing_labels < 0 || out.pairs.count < 0 ||
      !std::isfinite(out.pairs.mean) || !IsNonNegative(out.pairs.m2) ||
      !IsNonNegative(out.reliability.brier) || !IsNonNegative(out.reliability.log_loss) ||
      !IsNonNegative(stored.square_sum()) || !IsNonNegative(stored.class_1_square_sum()) ||
      !GetBins(stored.bins(), out.reliability) || !GetBins(stored.class_1_bins(), out.class_1) ||
      !GetSums(stored.forecasts(), out.forecasts) ||
      !GetDecisions(stored.decisions(), out.decisions)) {
    return false;
  }
  out.class_1.square_sum = stored.class_1_square_sum();
  out.reliability.square_sum = stored.square_sum();
  if (stored.has_watch()) {
    const store::v1::WatchMark& watch = stored.watch();
    out.watch = {.log10_e_value = watch.log10_e_value(),
                 .max_log10_e_value = watch.max_log10_e_value(),
                 .drift_log10_statistic = watch.drift_log10_statistic()};
    return std::isfinite(out.watch->log10_e_value) && std::isfinite(out.watch->max_log10_e_value) &&
           std::isfinite(out.watch->drift_log10_statistic);
  }
  return true;
}

}  // namespace

std::chrono::seconds SpanOf(HistoryResolution resolution) noexcept {
  switch (resolution) {
    case HistoryResolution::kMinute:
      return std::chrono::minutes(1);
    case HistoryResolution::kHour:
      return std::chrono::hours(1);
    case HistoryResolution::kDay:
      break;
  }
  return std::chrono::days(1);
}

std::chrono::seconds RetentionOf(HistoryResolution resolution) noexcept {
  switch (resolution) {
    case HistoryResolution::kMinute:
      return std::chrono::days(2);
    case HistoryResolution::kHour:
      return std::chrono::days(60);
    case HistoryResolution::kDay:
      break;
  }
  return std::chrono::days(1000);
}

std::string EncodeHistoryBucket(const HistoryBucket& bucket) {
  store::v1::HistoryBucket stored;
  Put(bucket, stored);
  return stored.SerializeAsString();
}

absl::StatusOr<HistoryBucket> DecodeHistoryBucket(std::string_view data) {
  store::v1::HistoryBucket stored;
  HistoryBucket bucket;
  if (!stored.ParseFromArray(data.data(), static_cast<int>(data.size())) ||
      !CheckStoredNumbers(stored).ok() || !Get(stored, bucket)) {
    return MakeError(absl::StatusCode::kDataLoss, "STORE_DAMAGED",
                     "a bucket of the history cannot be read");
  }
  return bucket;
}

bool History::EndsMinute(Time time) const noexcept {
  return !start_.has_value() || StartOfMinute(time) > *start_;
}

void History::Advance(Time time, const std::optional<WatchMark>& watch) {
  if (!EndsMinute(time)) return;
  const sys_seconds next = StartOfMinute(time);
  waiting_.reserve(waiting_.size() + open_.size());
  if (start_.has_value() && !minute().empty()) minute().watch = watch;
  for (std::size_t i = 0; start_.has_value() && i < open_.size(); ++i) {
    const HistoryResolution resolution = kHistoryResolutions[i];
    const sys_seconds start = StartOfSpan(*start_, resolution);
    if (StartOfSpan(next, resolution) == start) break;
    if (open_[i].empty()) continue;
    if (i + 1 < open_.size()) {
      open_[i + 1].Merge(open_[i]);
    } else {
      earlier_.Merge(open_[i].reliability);
      earlier_forecasts_.Merge(open_[i].forecasts);
    }
    waiting_.push_back({.resolution = resolution, .start = start, .bucket = open_[i]});
    open_[i] = {};
  }
  start_ = next;
}

void History::BeginEarlier(sys_seconds time) noexcept {
  const sys_seconds minute_start = StartOfMinute(time);
  if (minute_start < *start_) earlier_minute_ = minute_start;
}

void History::EndEarlier(const std::optional<WatchMark>& watch) {
  HistoryBucket bucket = std::exchange(earlier_bucket_, {});
  bucket.watch = watch;
  const sys_seconds time = *std::exchange(earlier_minute_, std::nullopt);
  // Added to each closed bucket of the time, and then to the first open one or to the earlier days.
  for (std::size_t i = 0; i < open_.size(); ++i) {
    const HistoryResolution resolution = kHistoryResolutions[i];
    const sys_seconds start = StartOfSpan(time, resolution);
    const sys_seconds open_start = StartOfSpan(*start_, resolution);
    if (start == open_start) {
      open_[i].Merge(bucket);
      return;
    }
    if (open_start - start <= RetentionOf(resolution)) AddLate(resolution, start, bucket);
  }
  earlier_.Merge(bucket.reliability);
  earlier_forecasts_.Merge(bucket.forecasts);
}

void History::AddLate(HistoryResolution resolution, sys_seconds start,
                      const HistoryBucket& bucket) {
  const auto waiting = std::find_if(
      waiting_.begin() + static_cast<std::ptrdiff_t>(storing_), waiting_.end(),
      [&](const Entry& entry) { return entry.resolution == resolution && entry.start == start; });
  (waiting != waiting_.end() ? waiting->bucket : late_[{resolution, start}]).Merge(bucket);
}

void History::BeginStore(std::int64_t log_id) noexcept {
  storing_ = waiting_.size();
  storing_late_ = std::exchange(late_, {});
  for (auto& [key, bucket] : storing_late_) bucket.late_log_id = log_id;
}

void History::EndStore(bool stored) noexcept {
  if (stored) {
    waiting_.erase(waiting_.begin(), waiting_.begin() + static_cast<std::ptrdiff_t>(storing_));
    storing_late_.clear();
  }
  storing_ = 0;
  // What was not stored comes before what was added since.
  std::swap(late_, storing_late_);
  for (auto& [key, bucket] : late_) bucket.late_log_id = 0;
  while (!storing_late_.empty()) {
    auto added = storing_late_.extract(storing_late_.begin());
    const auto [place, inserted, node] = late_.insert(std::move(added));
    if (!inserted) place->second.Merge(node.mapped());
  }
  // Additions to buckets that were being stored, but have not been.
  for (Entry& entry : waiting_) {
    const auto late = late_.find({entry.resolution, entry.start});
    if (late == late_.end()) continue;
    entry.bucket.Merge(late->second);
    late_.erase(late);
  }
}

std::vector<History::Entry> History::ViewLate(HistoryResolution resolution) const {
  std::vector<Entry> view;
  for (const Late* const additions : {&storing_late_, &late_}) {
    for (const auto& [key, bucket] : *additions) {
      if (key.first != resolution) continue;
      view.push_back({.resolution = resolution, .start = key.second, .bucket = bucket});
      if (additions == &late_) {
        view.back().bucket.late_log_id = std::numeric_limits<std::int64_t>::max();
      }
    }
  }
  return view;
}

std::vector<History::Entry> History::View(HistoryResolution resolution,
                                          const std::optional<WatchMark>& watch) const {
  std::vector<Entry> view;
  std::copy_if(waiting_.begin(), waiting_.end(), std::back_inserter(view),
               [resolution](const Entry& entry) { return entry.resolution == resolution; });
  if (!start_.has_value()) return view;
  Entry open{.resolution = resolution, .start = StartOfSpan(*start_, resolution), .bucket = {}};
  // Innermost first, in the order in which they will be added when they close.
  HistoryBucket inner;
  for (std::size_t i = 0; i < open_.size(); ++i) {
    HistoryBucket bucket = open_[i];
    if (!inner.empty()) bucket.Merge(inner);
    inner = bucket;
    if (kHistoryResolutions[i] == resolution) break;
  }
  open.bucket = inner;
  if (!open_.front().empty()) open.bucket.watch = watch;
  if (!open.bucket.empty()) view.push_back(open);
  return view;
}

RunningReliability History::AllTime() const noexcept {
  RunningReliability all = earlier_;
  for (std::size_t i = open_.size(); i-- > 0;) all.Merge(open_[i].reliability);
  return all;
}

ForecastSums History::AllTimeForecasts() const {
  ForecastSums all = earlier_forecasts_;
  for (std::size_t i = open_.size(); i-- > 0;) all.Merge(open_[i].forecasts);
  return all;
}

void History::Save(store::v1::HistoryState& out) const {
  out.set_minute_start_s(start_->time_since_epoch().count());
  for (const HistoryBucket& bucket : open_) Put(bucket, *out.add_open());
  HistoryBucket earlier;
  earlier.reliability = earlier_;
  earlier.forecasts = earlier_forecasts_;
  if (!earlier.empty()) Put(earlier, *out.mutable_earlier());
}

absl::Status History::Restore(const store::v1::HistoryState& stored, std::size_t cell_count) {
  if (stored.open_size() == 0) return absl::OkStatus();
  std::array<HistoryBucket, kHistoryResolutions.size()> open;
  HistoryBucket earlier;
  bool fits = stored.open_size() == static_cast<int>(open.size()) &&
              stored.minute_start_s() % SpanOf(HistoryResolution::kMinute).count() == 0 &&
              Get(stored.earlier(), earlier);
  const auto has_cells = [cell_count](const HistoryBucket& bucket) {
    return bucket.forecasts.cells.empty() || bucket.forecasts.cells.size() == cell_count;
  };
  fits = fits && has_cells(earlier);
  for (std::size_t i = 0; fits && i < open.size(); ++i) {
    fits = Get(stored.open(static_cast<int>(i)), open[i]) && has_cells(open[i]);
  }
  if (!fits) {
    return absl::InvalidArgumentError(
        absl::StrCat("has a history that cannot be read: ", stored.open_size(),
                     " open buckets from ", stored.minute_start_s(), " s on, expected ",
                     open.size(), " from the start of a minute on"));
  }
  start_ = sys_seconds(std::chrono::seconds(stored.minute_start_s()));
  open_ = open;
  earlier_ = earlier.reliability;
  earlier_forecasts_ = std::move(earlier.forecasts);
  return absl::OkStatus();
}

}  // namespace calibd::server
