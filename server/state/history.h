#ifndef CALIBD_SERVER_STATE_HISTORY_H_
#define CALIBD_SERVER_STATE_HISTORY_H_

#include <array>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <map>
#include <optional>
#include <span>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "calibd/store/v1/store.pb.h"
#include "server/kinds/history_bucket.h"

namespace calibd::server {

// Spans of the history, in UTC. The numbers are those of v1.GetHistoryRequest and of the store.
enum class HistoryResolution { kMinute = 1, kHour = 2, kDay = 3 };
inline constexpr std::array kHistoryResolutions = {
    HistoryResolution::kMinute, HistoryResolution::kHour, HistoryResolution::kDay};

[[nodiscard]] std::chrono::seconds SpanOf(HistoryResolution resolution) noexcept;
// How long a bucket is kept, measured back from the start of the model's newest bucket.
[[nodiscard]] std::chrono::seconds RetentionOf(HistoryResolution resolution) noexcept;

// The calibration of a model in buckets of a minute, an hour and a day, by the times of the rows of
// its log. Observations are added to the open minute. When a row of a later minute arrives, the
// open minute closes and is added to the open hour, which is added to the open day in the same way.
// If the clock was set back, rows are counted in the open minute. Observations that have an earlier
// time of their own are added to the buckets of that time: to the open ones, or, as late additions,
// to closed ones.
//
// The result has the same bits for the same rows, however they are divided into batches within a
// minute. Exception: the sums of a bucket with late additions may differ in the last bits, because
// a snapshot first sums the additions since the snapshot before it. Not thread-safe.
class History {
 public:
  using Time = std::chrono::system_clock::time_point;

  // Maximum number of closed buckets that are not stored, and of buckets with late additions that
  // are not stored. With more, a snapshot is due at once. One row of the log may add to all 5320
  // buckets that are kept: the rows that wait to be applied are charged for these; see RowWrite.
  static constexpr std::size_t kMostWaiting = 32;

  struct Entry {
    HistoryResolution resolution = HistoryResolution::kMinute;
    std::chrono::sys_seconds start;
    HistoryBucket bucket;
  };
  // An addition to a closed bucket. late_log_id of its bucket: of the snapshot that is storing it,
  // or 0.
  using Late = std::map<std::pair<HistoryResolution, std::chrono::sys_seconds>, HistoryBucket>;
  // Number of copies of a late addition in memory: the one that is being added to, and two while a
  // snapshot stores it, on the strand and on the storage thread.
  static constexpr std::size_t kLateCopies = 3;
  // Maximum number of buckets in memory, if no row adds to more than kMostWaiting closed buckets:
  // late additions; closed buckets and those that a row closes, with an encoded copy while they are
  // stored; the open ones, the one of an earlier minute that is counted, the sum of the closed
  // days, and those that a view combines.
  static constexpr std::size_t kMostBuckets = kLateCopies * kMostWaiting +
                                              2 * (kMostWaiting + kHistoryResolutions.size()) +
                                              kHistoryResolutions.size() + 4;

  // Number of closed buckets to which observations of these times add. times_s: seconds since 1970.
  // now: time of the row that holds them. Cost: O(n log n).
  [[nodiscard]] static std::size_t LateBuckets(std::span<const std::int64_t> times_s,
                                               std::chrono::sys_seconds now);

  // True after the first row.
  [[nodiscard]] bool started() const noexcept { return start_.has_value(); }
  // Returns true if a row of this time closes the open minute.
  [[nodiscard]] bool EndsMinute(Time time) const noexcept;
  // Call it before a row of this time is counted. watch: its state before the row. May throw
  // bad_alloc, after which nothing has changed.
  void Advance(Time time, const std::optional<WatchMark>& watch);
  // Begins to count observations of this time, if it is before the open minute, and otherwise in
  // the open minute. Call it after Advance, and EndEarlier after the observations if
  // counts_earlier().
  void BeginEarlier(std::chrono::sys_seconds time) noexcept;
  [[nodiscard]] bool counts_earlier() const noexcept { return earlier_minute_.has_value(); }
  // watch: its state after the observations. May throw bad_alloc; only a start can then continue.
  void EndEarlier(const std::optional<WatchMark>& watch);
  // The bucket to which observations are added. Call it after Advance.
  [[nodiscard]] HistoryBucket& counting() noexcept {
    return earlier_minute_.has_value() ? earlier_bucket_ : minute();
  }
  void CountRejected(std::int64_t rows) noexcept { minute().rejected_rows += rows; }
  void CountMissing(std::int64_t labels) noexcept { minute().missing_labels += labels; }

  // Closed buckets that may not be stored yet, in the order in which they closed.
  [[nodiscard]] const std::vector<Entry>& waiting() const noexcept { return waiting_; }
  // Late additions that are not being stored, except for those to buckets in waiting().
  [[nodiscard]] const Late& late() const noexcept { return late_; }
  [[nodiscard]] bool must_store() const noexcept {
    return waiting_.size() > kMostWaiting || late_.size() > kMostWaiting;
  }
  // The waiting buckets and the late additions are being stored, with the snapshot of the state
  // after this row of the log.
  void BeginStore(std::int64_t log_id) noexcept;
  // stored: whether they were stored.
  void EndStore(bool stored) noexcept;
  // Pending buckets of the resolution and the open one unless it is empty, in ascending order.
  // watch: its current state.
  [[nodiscard]] std::vector<Entry> View(HistoryResolution resolution,
                                        const std::optional<WatchMark>& watch) const;
  // Late additions of the resolution, to the buckets of View and to stored ones. A stored bucket
  // includes them if its late_log_id is not smaller than theirs.
  [[nodiscard]] std::vector<Entry> ViewLate(HistoryResolution resolution) const;

  // The scores of all observations, as far back as stored states include them. May throw bad_alloc.
  [[nodiscard]] HistoryBucket AllTime() const;

  // Call it after the first row. Saves the open buckets; closed ones are stored beside them.
  void Save(store::v1::HistoryState& out) const;
  // Restores a saved state. Call it before the first row. fits: whether a bucket is one of the
  // model. Errors: InvalidArgument.
  using Fits = std::function<bool(const HistoryBucket& bucket)>;
  [[nodiscard]] absl::Status Restore(const store::v1::HistoryState& stored, const Fits& fits);

 private:
  [[nodiscard]] HistoryBucket& minute() noexcept { return open_.front(); }
  // Adds to a closed bucket.
  void AddLate(HistoryResolution resolution, std::chrono::sys_seconds start,
               const HistoryBucket& bucket);

  // Start of the open minute, which determines the open hour and day; unset before the first row.
  std::optional<std::chrono::sys_seconds> start_;
  // In the order of the resolutions. The hour excludes the open minute, the day the open hour.
  std::array<HistoryBucket, kHistoryResolutions.size()> open_;
  // The scores of the closed days.
  HistoryBucket earlier_;
  std::vector<Entry> waiting_;
  // The first of waiting_ are being stored.
  std::size_t storing_ = 0;
  Late late_;
  Late storing_late_;
  // Between BeginEarlier and EndEarlier: the minute of the observations, if it is not the open one,
  // and what was counted.
  std::optional<std::chrono::sys_seconds> earlier_minute_;
  HistoryBucket earlier_bucket_;
};

}  // namespace calibd::server

#endif  // CALIBD_SERVER_STATE_HISTORY_H_
