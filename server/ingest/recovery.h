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

// What a recovery has done so far. Others may look at it, and end it.
struct Recovery {
  // Set by others: it ends soon, with Cancelled.
  std::atomic<bool> stop = false;
  // Read from the store.
  std::atomic<std::int64_t> models = 0;
  // Read from the log, for the window or to be counted again.
  std::atomic<std::int64_t> batches = 0;
  // Known when it is over. Counted again, as they are in no snapshot.
  std::int64_t replayed_rows = 0;
  double seconds = 0;
  // What an operator should know, for the server's log; each is one event.
  std::vector<std::string> warnings;
  // What LogClock starts at.
  std::chrono::microseconds elapsed{};
};

// Makes the models of the store as they were after the last commit: their newest snapshot,
// and the batches of the log after it. The registry is empty, and nobody else uses the store.
// On return the models' strands are idle.
// model_memory_bytes: what a declaration without monitoring may come to need with it.
// Errors: DataLoss when the store is damaged, and says of what; InvalidArgument when a model is
// none of today; ResourceExhausted when memory runs out; Cancelled.
[[nodiscard]] absl::Status Recover(Store& store, ModelRegistry& registry,
                                   std::size_t model_memory_bytes, Recovery& recovery,
                                   const Clock& clock = {});

}  // namespace calibd::server

#endif  // CALIBD_SERVER_INGEST_RECOVERY_H_
