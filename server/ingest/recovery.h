#ifndef CALIBD_SERVER_INGEST_RECOVERY_H_
#define CALIBD_SERVER_INGEST_RECOVERY_H_

#include <atomic>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "server/ingest/log_clock.h"
#include "server/state/model_registry.h"
#include "server/store/store.h"

namespace calibd::server {

// The progress of a recovery. Other threads may read it and stop the recovery.
struct Recovery {
  // Set by other threads to stop the recovery soon, with Cancelled.
  std::atomic<bool> stop = false;
  // Number of models read from the store.
  std::atomic<std::int64_t> models = 0;
  // Number of batches read from the log, to fill windows or to be replayed.
  std::atomic<std::int64_t> batches = 0;
  // Set at the end. Replayed rows are the rows after the snapshots.
  std::int64_t replayed_rows = 0;
  double seconds = 0;
  // One line each for the server's log.
  std::vector<std::string> warnings;
  // The start time for LogClock.
  std::chrono::microseconds elapsed{};
};

// Recovers the models as they were after the last commit, from their newest snapshots and the rows
// of the log after these. The registry must be empty, and no other thread may use the store. On
// return the models' strands are idle. model_memory_bytes: a model that would need more memory with
// monitoring is recovered without it. Errors: DataLoss naming the damage; InvalidArgument if this
// version no longer accepts a stored declaration; ResourceExhausted if memory is exhausted;
// Cancelled.
[[nodiscard]] absl::Status Recover(Store& store, ModelRegistry& registry,
                                   std::size_t model_memory_bytes, Recovery& recovery,
                                   const Clock& clock = {});

}  // namespace calibd::server

#endif  // CALIBD_SERVER_INGEST_RECOVERY_H_
