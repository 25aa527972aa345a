#ifndef CALIBD_SERVER_STATE_HISTORY_H_
#define CALIBD_SERVER_STATE_HISTORY_H_

#include <array>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "calibd/core/prediction_batch.h"
#include "calibd/core/running_reliability.h"
#include "calibd/core/running_skce.h"
#include "calibd/store/v1/store.pb.h"

namespace calibd::server {

// Spans of the history, in UTC. As in v1.GetHistoryRequest and in the store.
enum class HistoryResolution { kMinute = 1, kHour = 2, kDay = 3 };
inline constexpr std::array kHistoryResolutions = {
    HistoryResolution::kMinute, HistoryResolution::kHour, HistoryResolution::kDay};

[[nodiscard]] std::chrono::seconds SpanOf(HistoryResolution resolution) noexcept;
// For how long a bucket is kept, counted back from the start of the model's newest one.
[[nodiscard]] std::chrono::seconds RetentionOf(HistoryResolution resolution) noexcept;

// What is watched of a model, as it was at one moment: see v1.Evidence and v1.Drift.
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
  // estimate of block size 2. A pair belongs to the bucket of its second observation.
  RunningMoments pairs;
  RunningReliability reliability;
  // At the end of the span; unset for a model that is not watched.
  std::optional<WatchMark> watch;

  [[nodiscard]] std::int64_t observations() const noexcept { return reliability.Total().count; }
  [[nodiscard]] bool empty() const noexcept;
  // later: the bucket of the next span.
  void Merge(const HistoryBucket& later) noexcept;

  friend bool operator==(const HistoryBucket&, const HistoryBucket&) = default;
};

// Serializes the bucket as a store.v1.HistoryBucket.
[[nodiscard]] std::string EncodeHistoryBucket(const HistoryBucket& bucket);
// Errors: DataLoss when `data` is not a valid store.v1.HistoryBucket.
[[nodiscard]] absl::StatusOr<HistoryBucket> DecodeHistoryBucket(std::string_view data);

// The calibration of a model in buckets of a minute, an hour and a day, by the time of the rows
// of its log: what is counted is added to the open minute, which closes when a row of a later
// minute comes, and is then added to the open hour, and that to the open day. A closed bucket
// never changes: a clock that was set back has its rows counted in the open minute.
//
// The same rows give the same bits, however they are cut into batches of a minute. Not
// thread-safe.
class History {
 public:
  using Time = std::chrono::system_clock::time_point;

  // Number of closed buckets that may be pending. With more, a snapshot is due at once.
  static constexpr std::size_t kMostWaiting = 32;

  struct Entry {
    HistoryResolution resolution = HistoryResolution::kMinute;
    std::chrono::sys_seconds start;
    HistoryBucket bucket;
  };
  // Bytes that this may come to hold: the open ones, those that wait, as many again while they
  // are stored, and what a row closes.
  static constexpr std::size_t kMaxMemory = 2 * (kMostWaiting + 6) * sizeof(Entry);

  // True after the first row.
  [[nodiscard]] bool started() const noexcept { return start_.has_value(); }
  // True if a row of this time closes the open minute.
  [[nodiscard]] bool EndsMinute(Time time) const noexcept;
  // Before a row of this time is counted. watch: as it is before the row. May throw bad_alloc,
  // and then nothing has changed.
  void Advance(Time time, const std::optional<WatchMark>& watch);
  // Into the open minute, after Advance.
  void Count(const PredictionBatch& batch) noexcept { minute().reliability.Add(batch); }
  void CountRejected(std::int64_t rows) noexcept { minute().rejected_rows += rows; }
  void CountMissing(std::int64_t labels) noexcept { minute().missing_labels += labels; }
  [[nodiscard]] RunningMoments& pairs() noexcept { return minute().pairs; }

  // Closed buckets that are not known to be stored, in the order in which they closed.
  [[nodiscard]] const std::vector<Entry>& waiting() const noexcept { return waiting_; }
  // Drops the first `count` pending buckets, which are stored.
  void DropWaiting(std::size_t count) noexcept;
  // Pending buckets of the resolution and the open one unless it is empty, in ascending order.
  // watch: its current state.
  [[nodiscard]] std::vector<Entry> View(HistoryResolution resolution,
                                        const std::optional<WatchMark>& watch) const;

  // Reliability diagram over all observations, as far back as stored states include them.
  [[nodiscard]] RunningReliability AllTime() const noexcept;

  // After the first row. The open buckets: those that wait are stored with them.
  void Save(store::v1::HistoryState& out) const;
  // Before the first row. Goes on where Save was. Errors: InvalidArgument.
  [[nodiscard]] absl::Status Restore(const store::v1::HistoryState& stored);

 private:
  [[nodiscard]] HistoryBucket& minute() noexcept { return open_.front(); }

  // Start of the open minute, which determines the open hour and day; unset before the first row.
  std::optional<std::chrono::sys_seconds> start_;
  // In the order of the resolutions. The hour without the open minute, the day without the open
  // hour.
  std::array<HistoryBucket, kHistoryResolutions.size()> open_;
  // Reliability diagram over the closed days.
  RunningReliability earlier_;
  std::vector<Entry> waiting_;
};

}  // namespace calibd::server

#endif  // CALIBD_SERVER_STATE_HISTORY_H_
