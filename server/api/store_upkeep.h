#ifndef CALIBD_SERVER_API_STORE_UPKEEP_H_
#define CALIBD_SERVER_API_STORE_UPKEEP_H_

#include <atomic>
#include <functional>
#include <memory>
#include <mutex>
#include <vector>

#include "calibd/v1/store_service.pb.h"
#include "server/access/access_control.h"
#include "server/api/call.h"
#include "server/api/health.h"
#include "server/executor/thread_pool.h"
#include "server/ingest/commit_queue.h"
#include "server/state/model_registry.h"

namespace calibd::server {

class CopySender;

// Backups and verifications, computed on a thread of their own once the models are recovered. One
// copy or verification is computed at a time. Sending a result does not delay the next computation.
class StoreUpkeep {
 public:
  // Damage that a copy or verification finds is reported to health.
  StoreUpkeep(const ModelRegistry& registry, CommitQueue& commits, Health& health);

  // held: the right of the caller, kept while the copy is made and sent. Errors: Unavailable;
  // ResourceExhausted while another computation runs. The call may also end with the errors of
  // CommitQueue::OpenView, such as Unimplemented.
  [[nodiscard]] absl::Status Backup(const Reply<v1::BackupResponse>& reply,
                                    std::shared_ptr<AccessControl::Held> held);
  [[nodiscard]] absl::Status Verify(const Reply<v1::VerifyResponse>& reply);

  // Cancels the running computation and accepts no new one.
  void Drain() noexcept { draining_ = true; }
  void Stop() {
    computer_.Stop();
    reader_.Stop();
  }

 private:
  // While a turn exists, no other copy or verification is computed.
  using Turn = std::shared_ptr<void>;

  // Runs work on the computing thread; an error that it returns ends the call. work resets the turn
  // when its computation is done and only sending remains. Errors, after which work does not run:
  // Unavailable; ResourceExhausted while another computation runs.
  template <typename Response>
  absl::Status Begin(const Reply<Response>& reply, std::function<absl::Status(Turn&)> work);
  absl::Status MakeCopy(const Reply<v1::BackupResponse>& reply,
                        std::shared_ptr<AccessControl::Held> held, Turn& turn);
  absl::StatusOr<std::unique_ptr<StoreCopy>> Copy(const OnProgress& progress);
  // Makes room for another copy on disk. Errors: ResourceExhausted while the clients of all copies
  // are reading.
  absl::Status AdmitCopy();

  const ModelRegistry& registry_;
  CommitQueue& commits_;
  Health& health_;
  std::atomic<bool> busy_ = false;
  std::atomic<bool> draining_ = false;
  std::mutex mutex_;
  // The copies that are being sent. Guarded by mutex_.
  std::vector<std::weak_ptr<CopySender>> sending_;
  ThreadPool computer_;
  ThreadPool reader_;
};

}  // namespace calibd::server

#endif  // CALIBD_SERVER_API_STORE_UPKEEP_H_
