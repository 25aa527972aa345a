#include "server/ingest/history_reader.h"

#include <algorithm>
#include <iterator>
#include <new>
#include <optional>
#include <string_view>
#include <utility>

#include "absl/strings/str_cat.h"
#include "calibd/core/status_macros.h"
#include "server/base/errors.h"

namespace calibd::server {
namespace {

constexpr std::chrono::milliseconds kReadRetryDelay{1000};

bool StartsEarlier(const History::Entry& a, const History::Entry& b) { return a.start < b.start; }

}  // namespace

absl::Status HistoryReader::Read(const std::shared_ptr<Model>& model, const Range& range,
                                 Done done) {
  if (reads_.fetch_add(1) >= kMostReads) {
    --reads_;
    return WithRetryDelay(
        MakeError(absl::StatusCode::kResourceExhausted, "TOO_MANY_READS",
                  absl::StrCat(kMostReads, " calls for a history are queued, expected fewer")),
        kReadRetryDelay);
  }
  const auto finish = [this,
                       done = std::move(done)](absl::StatusOr<std::vector<History::Entry>> result) {
    --reads_;
    done(std::move(result));
  };
  // First reads the buckets that are not known to be stored, then the stored ones: a bucket may be
  // in both, but not in neither.
  const auto view = [this, model, range, finish] {
    try {
      auto unstored = model->strand_state().history().View(range.resolution,
                                                           model->strand_state().watch_mark());
      auto late = model->strand_state().history().ViewLate(range.resolution);
      thread_.Post([this, model, range, finish, unstored = std::move(unstored),
                    late = std::move(late)]() mutable {
        try {
          finish(ReadAll(*model, range, std::move(unstored), late));
        } catch (const std::bad_alloc&) {
          finish(absl::ResourceExhaustedError("out of memory while a history was read"));
        }
      });
    } catch (const std::bad_alloc&) {
      finish(absl::ResourceExhaustedError("out of memory while a history was read"));
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

absl::StatusOr<std::vector<History::Entry>> HistoryReader::ReadAll(
    const Model& model, const Range& range, std::vector<History::Entry> unstored,
    const std::vector<History::Entry>& late) const {
  std::vector<History::Entry> stored;
  const absl::Status status = store_.ReadHistory(
      {.model_id = model.id(), .resolution = static_cast<std::int64_t>(range.resolution)},
      {.start_s = range.start.time_since_epoch().count(),
       .end_s = range.end.time_since_epoch().count()},
      [&](std::int64_t start_s, std::string_view data) {
        CALIBD_ASSIGN_OR_RETURN(HistoryBucket bucket, DecodeHistoryBucket(data));
        stored.push_back({.resolution = range.resolution,
                          .start = std::chrono::sys_seconds(std::chrono::seconds(start_s)),
                          .bucket = std::move(bucket)});
        return absl::OkStatus();
      });
  if (absl::IsDataLoss(status)) on_damage_(status);
  if (!status.ok()) return status;
  if (model.deleted()) return ModelNotFoundError(model.declaration()->name.ToString());
  const auto outside = [&range](const History::Entry& entry) {
    return entry.start < range.start || entry.start >= range.end;
  };
  std::erase_if(unstored, [&](const History::Entry& entry) {
    return outside(entry) || std::ranges::binary_search(stored, entry, StartsEarlier);
  });
  std::vector<History::Entry> all;
  all.reserve(stored.size() + unstored.size() + late.size());
  std::merge(std::move_iterator(stored.begin()), std::move_iterator(stored.end()),
             std::move_iterator(unstored.begin()), std::move_iterator(unstored.end()),
             std::back_inserter(all), StartsEarlier);
  for (const History::Entry& addition : late) {
    if (outside(addition)) continue;
    const auto bucket = std::ranges::lower_bound(all, addition, StartsEarlier);
    if (bucket == all.end() || bucket->start != addition.start) {
      all.insert(bucket, addition);
    } else if (bucket->bucket.late_log_id < addition.bucket.late_log_id) {
      bucket->bucket.Merge(addition.bucket);
    }
  }
  return all;
}

}  // namespace calibd::server
