#ifndef CALIBD_SERVER_INGEST_RECOVERY_H_
#define CALIBD_SERVER_INGEST_RECOVERY_H_

#include <chrono>
#include <cstddef>
#include <cstdint>

#include "absl/status/statusor.h"
#include "server/executor/thread_pool.h"
#include "server/ingest/log_clock.h"
#include "server/state/model_registry.h"
#include "server/store/store.h"

namespace calibd::server {

struct Recovery {
  std::size_t models = 0;
  // Read from the log, for the window or to be counted again.
  std::int64_t batches = 0;
  // Counted again, as they are in no snapshot.
  std::int64_t replayed_rows = 0;
  double seconds = 0;
  // What LogClock starts at.
  std::chrono::microseconds elapsed{};
};

// Makes the models of the store as they were after the last commit: their newest snapshot,
// and the batches of the log after it. The registry is empty. On return the models' strands
// are idle.
// Errors: DataLoss when the store is damaged, and says of what; ResourceExhausted and
// InvalidArgument when a model does not fit the limits of today.
[[nodiscard]] absl::StatusOr<Recovery> Recover(Store& store, ModelRegistry& registry,
                                               std::size_t model_memory_bytes,
                                               const Clock& clock = {});

}  // namespace calibd::server

#endif  // CALIBD_SERVER_INGEST_RECOVERY_H_
