#ifndef CALIBD_SERVER_INGEST_SNAPSHOTS_H_
#define CALIBD_SERVER_INGEST_SNAPSHOTS_H_

#include <chrono>
#include <cstddef>
#include <memory>

#include "server/ingest/log_clock.h"
#include "server/state/model.h"
#include "server/state/model_registry.h"
#include "server/store/commit_queue.h"

namespace calibd::server {

// Has the model's state stored if that is due, with the cursors that moved and the buckets of its
// history that wait, and what the log no longer needs then released. Is asked again when that has
// ended; says in Model::snapshot_due_at when it is to be asked otherwise. On the model's strand.
// commits and clock must live longer than what is under way.
void PostSnapshotIfDue(const std::shared_ptr<Model>& model, CommitQueue& commits,
                       const LogClock& clock);

// Stores snapshots of all models with changes that are in no snapshot, due or not, a few at a time.
// Returns when each snapshot is stored or has failed; begins none after the deadline. Returns the
// number of models that were not stored, or not asked before the deadline: the next start replays
// the log for them.
[[nodiscard]] std::size_t StoreSnapshots(const ModelRegistry& registry, CommitQueue& commits,
                                         const LogClock& clock,
                                         std::chrono::steady_clock::time_point deadline);

}  // namespace calibd::server

#endif  // CALIBD_SERVER_INGEST_SNAPSHOTS_H_
