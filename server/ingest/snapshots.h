#ifndef CALIBD_SERVER_INGEST_SNAPSHOTS_H_
#define CALIBD_SERVER_INGEST_SNAPSHOTS_H_

#include <chrono>
#include <cstddef>
#include <memory>

#include "server/ingest/commit_queue.h"
#include "server/ingest/log_clock.h"
#include "server/state/model.h"
#include "server/state/model_registry.h"

namespace calibd::server {

// Persists a snapshot of the model if one is due, with the cursors that have changed and the
// closed buckets of its history, and then releases the rows of the log that are no longer needed.
// Is called again when the snapshot has been written or has failed; otherwise sets
// Model::snapshot_due_at to the time of the next call. Runs on the model's strand. commits and
// clock must outlive the running operations.
void PostSnapshotIfDue(const std::shared_ptr<Model>& model, CommitQueue& commits,
                       const LogClock& clock);

// Persists snapshots of all models with changes since their newest snapshot, due or not, a few at a
// time. Returns when each snapshot is stored or has failed; starts none after the deadline. Returns
// the number of models without a new snapshot, for which the next start replays the log.
[[nodiscard]] std::size_t StoreSnapshots(const ModelRegistry& registry, CommitQueue& commits,
                                         const LogClock& clock,
                                         std::chrono::steady_clock::time_point deadline);

}  // namespace calibd::server

#endif  // CALIBD_SERVER_INGEST_SNAPSHOTS_H_
