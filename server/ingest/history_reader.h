#ifndef CALIBD_SERVER_INGEST_HISTORY_READER_H_
#define CALIBD_SERVER_INGEST_HISTORY_READER_H_

#include <atomic>
#include <chrono>
#include <cstddef>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "server/executor/thread_pool.h"
#include "server/state/history.h"
#include "server/state/model.h"
#include "server/store/catalog.h"

namespace calibd::server {

// Merges the stored history of a model with the buckets in memory. Reads the store on its own
// thread. Thread-safe.
class HistoryReader {
 public:
  // Maximum number of queued reads; each holds at most the history of one model in one resolution.
  static constexpr std::size_t kMostReads = 100;

  // Called on the reader's thread with damage that was found.
  using OnDamage = std::function<void(const absl::Status&)>;

  // store: must outlive the reads.
  explicit HistoryReader(
      const StoreCatalog& store, OnDamage on_damage = [](const absl::Status&) {})
      : store_(store), on_damage_(std::move(on_damage)), thread_("calibd-history", 1) {}

  struct Range {
    HistoryResolution resolution = HistoryResolution::kHour;
    // Buckets that begin at `start` or later and before `end`.
    std::chrono::sys_seconds start;
    std::chrono::sys_seconds end;
  };
  using Done = std::function<void(absl::StatusOr<std::vector<History::Entry>>)>;
  // done: called on the thread with the non-empty buckets of the range, ascending. They include
  // everything that was acknowledged before the call. Errors of done: NotFound (the model was
  // deleted), those of the store. Cost: some microseconds per bucket. Errors, after which done is
  // not called: ResourceExhausted if too many reads are queued. May throw bad_alloc, also without
  // calling done.
  [[nodiscard]] absl::Status Read(const std::shared_ptr<Model>& model, const Range& range,
                                  Done done);
  // Queues a check of the history of the next model and resolution, until all were checked once.
  // Cost: some milliseconds of the thread. Only one such check is queued at a time.
  void CheckNext();
  // Completes the queued reads; done is not called for later ones.
  void Stop() { thread_.Stop(); }

 private:
  [[nodiscard]] absl::StatusOr<std::vector<History::Entry>> ReadAll(
      const Model& model, const Range& range, std::vector<History::Entry> unstored,
      const std::vector<History::Entry>& late) const;

  void CheckSeries();
  // Returns false if there is no further series.
  bool CheckNextSeries();

  const StoreCatalog& store_;
  const OnDamage on_damage_;
  std::atomic<std::size_t> reads_ = 0;
  // True while CheckSeries is queued or running, and after everything was checked.
  std::atomic<bool> checking_ = false;
  // The series that was checked last; used only on the thread.
  HistorySeries checked_;
  ThreadPool thread_;
};

}  // namespace calibd::server

#endif  // CALIBD_SERVER_INGEST_HISTORY_READER_H_
