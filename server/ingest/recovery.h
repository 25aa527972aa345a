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
#include "server/store/local/store.h"

namespace calibd::server {

// The progress of a recovery. Other threads may read it, and stop it.
struct Recovery {
  // Set by other threads to stop the recovery soon, with Cancelled.
  std::atomic<bool> stop = false;
  // Read from the store.
  std::atomic<std::int64_t> models = 0;
  // Read from the log, to fill windows or to be replayed.
  std::atomic<std::int64_t> batches = 0;
  // Known at the end. Replayed rows are those that no snapshot holds.
  std::int64_t replayed_rows = 0;
  double seconds = 0;
  // For the server's log, one line each.
  std::vector<std::string> warnings;
  // The time at which LogClock starts.
  std::chrono::microseconds elapsed{};
};

// Recovers the models as they were after the last commit: from their newest snapshots and the
// batches of the log after these. The registry is empty, and no other thread uses the store.
// On return the models' strands are idle.
// model_memory_bytes: a model that would need more with monitoring is recovered without it.
// Errors: DataLoss naming the damage; InvalidArgument when a stored model is not valid in this
// version; ResourceExhausted when memory runs out; Cancelled.
[[nodiscard]] absl::Status Recover(Store& store, ModelRegistry& registry,
                                   std::size_t model_memory_bytes, Recovery& recovery,
                                   const Clock& clock = {});

}  // namespace calibd::server

#endif  // CALIBD_SERVER_INGEST_RECOVERY_H_
