#ifndef CALIBD_SERVER_INGEST_MATURATION_H_
#define CALIBD_SERVER_INGEST_MATURATION_H_

#include <condition_variable>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <mutex>
#include <set>
#include <thread>
#include <vector>

#include "server/ingest/ingestor.h"
#include "server/state/model_registry.h"

namespace calibd::server {

// Has predictions mature when they are due. Runs a thread that looks at the models' trackers;
// the work is the storage thread's and the strands'.
class Maturation {
 public:
  // registry: with all models of the store.
  Maturation(const ModelRegistry& registry, Ingestor& ingestor);
  // Stop().
  ~Maturation();
  Maturation(const Maturation&) = delete;
  Maturation& operator=(const Maturation&) = delete;

  // Begins nothing any more. What has begun may still be under way.
  void Stop();

 private:
  void Run();
  // Looks anew which models have predictions that wait.
  void Refresh();
  // Begins what is due and not under way.
  void Begin();

  const ModelRegistry& registry_;
  Ingestor& ingestor_;
  std::mutex mutex_;
  std::condition_variable changed_;
  bool stopping_ = false;             // guarded by mutex_
  bool finished_ = false;             // guarded by mutex_: one since the last look
  std::set<std::int64_t> under_way_;  // guarded by mutex_: ids of models
  // The thread's: of models with a tracker, and where in them it begins.
  std::vector<std::shared_ptr<Model>> models_;
  std::size_t first_ = 0;
  std::thread thread_;
};

}  // namespace calibd::server

#endif  // CALIBD_SERVER_INGEST_MATURATION_H_
