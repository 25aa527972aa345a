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
// thread, one bucket after another, so that a history of any length takes little memory.
// Thread-safe.
class HistoryReader {
 public:
  // Maximum number of queued reads.
  static constexpr std::size_t kMostReads = 100;
  // Maximum number of bytes that the queued reads hold: copies of buckets that are not stored yet.
  // A single read may hold more.
  static constexpr std::size_t kMostHeldBytes = std::size_t{32} << 20;

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
  // Called on the thread with each bucket of the range that is not empty, ascending. Together they
  // include everything that was acknowledged before the call.
  using Visit = std::function<void(const History::Entry&)>;
  // Called on the thread after the last bucket, or on the model's strand after an error. Errors:
  // NotFound (the model was deleted), ResourceExhausted (too many reads hold too much memory),
  // those of the store; the buckets that were visited are then not all.
  using Done = std::function<void(const absl::Status&)>;
  // Cost: some microseconds per bucket. Errors, after which done is not called: ResourceExhausted
  // if too many reads are queued. May throw bad_alloc, also without calling done.
  [[nodiscard]] absl::Status Read(const std::shared_ptr<Model>& model, const Range& range,
                                  Visit visit, Done done);
  // Queues a check of the history of the next model and resolution, until all were checked once.
  // Cost: some milliseconds of the thread. Only one such check is queued at a time.
  void CheckNext();
  // Completes the queued reads; done is not called for later ones.
  void Stop() { thread_.Stop(); }

 private:
  // The buckets of one resolution that may not be stored: see History::View and ViewLate.
  struct Unstored {
    // held: the sum of `bytes` of all such objects.
    Unstored(const StrandState& state, HistoryResolution resolution,
             std::atomic<std::size_t>& held);
    ~Unstored() { held_bytes -= bytes; }
    Unstored(const Unstored&) = delete;
    Unstored& operator=(const Unstored&) = delete;

    // Both ascending.
    const std::vector<History::Entry> buckets;
    const std::vector<History::Entry> late;
    const std::size_t bytes;
    std::atomic<std::size_t>& held_bytes;
  };
  [[nodiscard]] absl::Status ReadAll(const Model& model, const Range& range,
                                     const Unstored& unstored, const Visit& visit) const;

  void CheckSeries();
  // Returns false if there is no further series.
  bool CheckNextSeries();

  const StoreCatalog& store_;
  const OnDamage on_damage_;
  std::atomic<std::size_t> reads_ = 0;
  std::atomic<std::size_t> held_bytes_ = 0;
  // True while CheckSeries is queued or running, and after everything was checked.
  std::atomic<bool> checking_ = false;
  // The series that was checked last; used only on the thread.
  HistorySeries checked_;
  ThreadPool thread_;
};

}  // namespace calibd::server

#endif  // CALIBD_SERVER_INGEST_HISTORY_READER_H_
