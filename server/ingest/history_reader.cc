#include "server/ingest/history_reader.h"

#include <algorithm>
#include <new>
#include <optional>
#include <span>
#include <string_view>
#include <utility>

#include "absl/strings/str_cat.h"
#include "calibd/core/status_macros.h"
#include "server/base/errors.h"

namespace calibd::server {
namespace {

constexpr std::chrono::milliseconds kReadRetryDelay{1000};

absl::Status TooManyReads(std::string_view what) {
  return WithRetryDelay(MakeError(absl::StatusCode::kResourceExhausted, "TOO_MANY_READS", what),
                        kReadRetryDelay);
}

absl::Status OutOfMemory() {
  return absl::ResourceExhaustedError("out of memory while a history was read");
}

// Additions of two snapshots to one bucket stay in their order.
std::vector<History::Entry> SortedLate(const History& history, HistoryResolution resolution) {
  std::vector<History::Entry> late = history.ViewLate(resolution);
  std::ranges::stable_sort(late, {}, &History::Entry::start);
  return late;
}

std::size_t BytesOf(const std::vector<History::Entry>& entries) {
  std::size_t bytes = 0;
  for (const History::Entry& entry : entries) bytes += entry.bucket.bytes();
  return bytes;
}

// Visits buckets of a range in ascending order, each as the sum of its parts: a stored bucket, or
// one that is not stored, and late additions.
class Merger {
 public:
  using Entries = std::span<const History::Entry>;

  // unstored, late: ascending.
  Merger(Entries unstored, Entries late, const HistoryReader::Range& range,
         const HistoryReader::Visit& visit)
      : unstored_(unstored), late_(late), range_(range), visit_(visit) {}

  // Adds the next stored bucket.
  void Add(History::Entry stored) {
    AddUntil(stored.start);
    // The bucket has been stored since.
    if (!unstored_.empty() && unstored_.front().start == stored.start) {
      unstored_ = unstored_.subspan(1);
    }
    Visit(std::move(stored));
  }
  // Adds what comes after the last stored bucket.
  void End() { AddUntil(std::chrono::sys_seconds::max()); }

 private:
  // Adds what is not stored before this time.
  void AddUntil(std::chrono::sys_seconds end) {
    while (true) {
      const bool has_bucket = !unstored_.empty() && unstored_.front().start < end;
      const bool has_late = !late_.empty() && late_.front().start < end;
      if (!has_bucket && !has_late) return;
      if (has_bucket && (!has_late || unstored_.front().start <= late_.front().start)) {
        History::Entry next = unstored_.front();
        unstored_ = unstored_.subspan(1);
        Visit(std::move(next));
      } else {
        History::Entry next = late_.front();
        late_ = late_.subspan(1);
        Visit(std::move(next));
      }
    }
  }

  // bucket: its late additions are next in late_.
  void Visit(History::Entry bucket) {
    for (; !late_.empty() && late_.front().start == bucket.start; late_ = late_.subspan(1)) {
      const HistoryBucket& addition = late_.front().bucket;
      if (bucket.bucket.late_log_id < addition.late_log_id) bucket.bucket.Merge(addition);
    }
    if (bucket.start >= range_.start && bucket.start < range_.end) visit_(bucket);
  }

  Entries unstored_;
  Entries late_;
  const HistoryReader::Range& range_;
  const HistoryReader::Visit& visit_;
};

}  // namespace

HistoryReader::Unstored::Unstored(const StrandState& state, HistoryResolution resolution,
                                  std::atomic<std::size_t>& held)
    : buckets(state.history().View(resolution, state.watch_mark())),
      late(SortedLate(state.history(), resolution)),
      bytes(BytesOf(buckets) + BytesOf(late)),
      held_bytes(held) {
  held_bytes += bytes;
}

absl::Status HistoryReader::Read(const std::shared_ptr<Model>& model, const Range& range,
                                 Visit visit, Done done) {
  if (reads_.fetch_add(1) >= kMostReads) {
    --reads_;
    return TooManyReads(
        absl::StrCat(kMostReads, " calls for a history are queued, expected fewer"));
  }
  const auto finish = [this, done = std::move(done)](const absl::Status& status) {
    --reads_;
    done(status);
  };
  // First reads the buckets that are not known to be stored, then the stored ones: a bucket may be
  // in both, but not in neither.
  const auto view = [this, model, range, visit = std::move(visit), finish] {
    try {
      const auto unstored =
          std::make_shared<const Unstored>(model->strand_state(), range.resolution, held_bytes_);
      if (const std::size_t held = held_bytes_; held > unstored->bytes && held > kMostHeldBytes) {
        return finish(TooManyReads(absl::StrCat("calls for a history hold ", held,
                                                " bytes, expected at most ", kMostHeldBytes)));
      }
      thread_.Post([this, model, range, visit, finish, unstored] {
        try {
          finish(ReadAll(*model, range, *unstored, visit));
        } catch (const std::bad_alloc&) {
          finish(OutOfMemory());
        }
      });
    } catch (const std::bad_alloc&) {
      finish(OutOfMemory());
    }
  };
  try {
    model->strand().Post(view);
  } catch (...) {
    --reads_;
    throw;
  }
  return absl::OkStatus();
}

void HistoryReader::CheckNext() {
  if (checking_.exchange(true)) return;
  try {
    thread_.Post([this] { CheckSeries(); });
  } catch (...) {
    checking_ = false;
    throw;
  }
}

void HistoryReader::CheckSeries() {
  bool checked_all = false;
  try {
    checked_all = !CheckNextSeries();
  } catch (const std::bad_alloc&) {
    // The same series is checked again later.
  }
  // After the last series, it stays true as if a check were running.
  checking_ = checked_all;
}

bool HistoryReader::CheckNextSeries() {
  const absl::StatusOr<std::optional<HistorySeries>> next = store_.NextHistory(checked_);
  absl::Status status = next.status();
  if (absl::IsDataLoss(status)) {
    // The list of the series is damaged, so no further series can be found.
    on_damage_(status);
    return false;
  }
  if (status.ok() && !next->has_value()) return false;
  if (status.ok()) {
    status = store_.ReadHistory(
        **next, {},
        [](std::int64_t /*start_s*/, std::string_view /*data*/) { return absl::OkStatus(); });
    // After any other error, the series is read again.
    if (status.ok() || absl::IsDataLoss(status)) checked_ = **next;
  }
  if (absl::IsDataLoss(status)) on_damage_(status);
  return true;
}

absl::Status HistoryReader::ReadAll(const Model& model, const Range& range,
                                    const Unstored& unstored, const Visit& visit) const {
  Merger merger(unstored.buckets, unstored.late, range, visit);
  absl::Status status = store_.ReadHistory(
      {.model_id = model.id(), .resolution = static_cast<std::int64_t>(range.resolution)},
      {.start_s = range.start.time_since_epoch().count(),
       .end_s = range.end.time_since_epoch().count()},
      [&](std::int64_t start_s, std::string_view data) {
        CALIBD_ASSIGN_OR_RETURN(HistoryBucket bucket, DecodeHistoryBucket(data));
        merger.Add({.resolution = range.resolution,
                    .start = std::chrono::sys_seconds(std::chrono::seconds(start_s)),
                    .bucket = std::move(bucket)});
        return absl::OkStatus();
      });
  if (absl::IsDataLoss(status)) on_damage_(status);
  if (!status.ok()) return status;
  if (model.deleted()) return ModelNotFoundError(model.declaration()->name.ToString());
  merger.End();
  return absl::OkStatus();
}

}  // namespace calibd::server
