#ifndef CALIBD_SERVER_INGEST_SNAPSHOTS_H_
#define CALIBD_SERVER_INGEST_SNAPSHOTS_H_

#include <memory>

#include "server/ingest/log_clock.h"
#include "server/state/model.h"
#include "server/store/commit_queue.h"

namespace calibd::server {

// Has the model's state stored, with the cursors that moved and the buckets of its history that
// wait, and what the log no longer needs then released. On the model's strand. commits and clock
// must live longer than what is under way.
void PostSnapshot(const std::shared_ptr<Model>& model, CommitQueue& commits, const LogClock& clock);

}  // namespace calibd::server

#endif  // CALIBD_SERVER_INGEST_SNAPSHOTS_H_
