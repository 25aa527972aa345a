#include "server/store/local/checkpointer.h"

#include <pthread.h>

#include <algorithm>
#include <utility>

#include "calibd/core/status_macros.h"
#include "server/base/failpoint.h"

namespace calibd::server {
namespace {

// A checkpoint starts when the write-ahead log has grown by this many pages of 4 KiB.
constexpr int kCheckpointPages = 2000;

}  // namespace

absl::StatusOr<std::unique_ptr<Checkpointer>> Checkpointer::Start(const std::string& path) {
  CALIBD_ASSIGN_OR_RETURN(Database database, Database::OpenExisting(path));
  // A connection does not know of the write-ahead log, and copies nothing, until it has read.
  CALIBD_RETURN_IF_ERROR(database.QueryInteger("SELECT count(*) FROM sqlite_master").status());
  return std::unique_ptr<Checkpointer>(new Checkpointer(std::move(database)));
}

Checkpointer::Checkpointer(Database database) : database_(std::move(database)) {
  thread_ = std::thread([this] { Run(); });
}

Checkpointer::~Checkpointer() { Stop(); }

void Checkpointer::Stop() {
  {
    const std::lock_guard lock(mutex_);
    stopping_ = true;
  }
  changed_.notify_all();
  if (thread_.joinable()) thread_.join();
}

void Checkpointer::OnCommit(int wal_pages) {
  {
    const std::lock_guard lock(mutex_);
    wal_pages_ = wal_pages;
  }
  changed_.notify_one();
}

std::unique_lock<std::mutex> Checkpointer::Pause() { return std::unique_lock(running_); }

absl::Status Checkpointer::status() const {
  const std::lock_guard lock(mutex_);
  return status_;
}

void Checkpointer::Run() {
  pthread_setname_np(pthread_self(), "calibd-ckpt");
  int done_at = 0;
  while (true) {
    {
      std::unique_lock lock(mutex_);
      // After a complete checkpoint, the next commit starts the write-ahead log anew.
      changed_.wait(lock, [&] {
        done_at = std::min(done_at, wal_pages_);
        return stopping_ || wal_pages_ - done_at > kCheckpointPages;
      });
      if (stopping_) return;
      done_at = wal_pages_;
    }
    Failpoint("checkpoint");
    absl::Status status;
    {
      const std::lock_guard running(running_);
      status = database_.Checkpoint(SQLITE_CHECKPOINT_PASSIVE);
    }
    Failpoint("checkpoint");
    if (!status.ok() && !absl::IsResourceExhausted(status)) {
      const std::lock_guard lock(mutex_);
      status_ = status;
      return;
    }
  }
}

}  // namespace calibd::server
