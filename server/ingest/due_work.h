#ifndef CALIBD_SERVER_INGEST_DUE_WORK_H_
#define CALIBD_SERVER_INGEST_DUE_WORK_H_

#include <condition_variable>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <mutex>
#include <set>
#include <thread>
#include <vector>

#include "server/ingest/commit_queue.h"
#include "server/ingest/ingestor.h"
#include "server/state/model_registry.h"

namespace calibd::server {

// Starts work that becomes due by time, independent of batches: predictions mature, and the state
// of idle models is persisted. A thread of its own examines the models; the storage thread and the
// strands do the work.
class DueWork {
 public:
  // registry: contains all models of the store. each_interval: called repeatedly on the thread, to
  // start work that should not be done all at once; may throw bad_alloc.
  DueWork(
      const ModelRegistry& registry, Ingestor& ingestor, CommitQueue& commits,
      std::function<void()> each_interval = [] {});
  // Calls Stop().
  ~DueWork();
  DueWork(const DueWork&) = delete;
  DueWork& operator=(const DueWork&) = delete;

  // Starts no new work. Work that was started may still be running.
  void Stop();

 private:
  void Run();
  // Reads the list of models again.
  void Refresh();
  // Starts the maturation of models that have due predictions and are not maturing already.
  void Mature();
  // Asks models for snapshots that are due, only a few at a time.
  void AskForSnapshots();

  const ModelRegistry& registry_;
  Ingestor& ingestor_;
  CommitQueue& commits_;
  const std::function<void()> each_interval_;
  std::mutex mutex_;
  std::condition_variable changed_;
  bool stopping_ = false;             // guarded by mutex_
  bool finished_ = false;             // guarded by mutex_: since the last pass
  std::set<std::int64_t> under_way_;  // guarded by mutex_: ids of models
  // Used only by the thread: the models, and where the next maturation and the next snapshot begin.
  std::vector<std::shared_ptr<Model>> models_;
  std::size_t first_maturing_ = 0;
  std::size_t first_asked_ = 0;
  std::thread thread_;
};

}  // namespace calibd::server

#endif  // CALIBD_SERVER_INGEST_DUE_WORK_H_
