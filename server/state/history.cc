#include "server/state/history.h"

#include <algorithm>
#include <iterator>
#include <limits>
#include <optional>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "calibd/core/status_macros.h"
#include "server/watch/state_fields.h"

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

struct StoredHistory {
  std::int64_t minute_start_s = 0;
  std::vector<HistoryBucket> open;
  std::optional<HistoryBucket> earlier;
};

void HistoryFields(StateFields& fields, StoredHistory& history) {
  using Stored = store::v1::HistoryState;
  fields(Stored::kMinuteStartSFieldNumber, history.minute_start_s);
  fields.Each(Stored::kOpenFieldNumber, history.open, BucketFields);
  fields(Stored::kEarlierFieldNumber, history.earlier, BucketFields);
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

std::size_t History::LateBuckets(std::span<const std::int64_t> times_s, sys_seconds now) {
  std::size_t late = 0;
  std::vector<sys_seconds> starts;
  starts.reserve(times_s.size());
  for (const HistoryResolution resolution : kHistoryResolutions) {
    const sys_seconds open = StartOfSpan(now, resolution);
    starts.clear();
    for (const std::int64_t time_s : times_s) {
      const sys_seconds start = StartOfSpan(sys_seconds(std::chrono::seconds(time_s)), resolution);
      if (start >= open || open - start > RetentionOf(resolution)) continue;
      if (starts.empty() || starts.back() != start) starts.push_back(start);
    }
    std::ranges::sort(starts);
    starts.erase(std::unique(starts.begin(), starts.end()), starts.end());
    late += starts.size();
  }
  return late;
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
      earlier_.MergeScores(open_[i]);
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
  earlier_.MergeScores(bucket);
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

HistoryBucket History::AllTime() const {
  HistoryBucket all = earlier_;
  for (std::size_t i = open_.size(); i-- > 0;) all.MergeScores(open_[i]);
  return all;
}

void History::Save(store::v1::HistoryState& out) const {
  StoredHistory state{.minute_start_s = start_->time_since_epoch().count(),
                      .open = {open_.begin(), open_.end()},
                      .earlier = std::nullopt};
  if (!earlier_.empty()) state.earlier = earlier_;
  SaveFields(std::move(state), out, HistoryFields);
}

absl::Status History::Restore(const store::v1::HistoryState& stored, const Fits& fits_model) {
  if (stored.open_size() == 0) return absl::OkStatus();
  StoredHistory state;
  CALIBD_RETURN_IF_ERROR(RestoreFields(stored, state, HistoryFields));
  HistoryBucket earlier = std::move(state.earlier).value_or(HistoryBucket());
  if (state.open.size() != open_.size() || !fits_model(earlier) ||
      state.minute_start_s % SpanOf(HistoryResolution::kMinute).count() != 0 ||
      !std::ranges::all_of(state.open, fits_model)) {
    return absl::InvalidArgumentError(absl::StrCat(
        "has a history that cannot be read: ", state.open.size(), " open buckets from ",
        state.minute_start_s, " s on, expected ", open_.size(), " from the start of a minute on"));
  }
  start_ = sys_seconds(std::chrono::seconds(state.minute_start_s));
  std::ranges::move(state.open, open_.begin());
  earlier_ = std::move(earlier);
  return absl::OkStatus();
}

}  // namespace calibd::server
