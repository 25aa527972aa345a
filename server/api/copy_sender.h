#ifndef CALIBD_SERVER_API_COPY_SENDER_H_
#define CALIBD_SERVER_API_COPY_SENDER_H_

#include <xxhash.h>

#include <atomic>
#include <chrono>
#include <cstdint>
#include <memory>
#include <vector>

#include "absl/status/status.h"
#include "calibd/v1/store_service.pb.h"
#include "server/api/call.h"
#include "server/executor/thread_pool.h"
#include "server/store/maintenance.h"

namespace calibd::server {

// Sends a finished copy of the store and then its size and hash, at the pace at which the client
// reads. No thread waits for the client. Lives until the call ends.
class CopySender final : public std::enable_shared_from_this<CopySender> {
 public:
  using Clock = std::chrono::steady_clock;

  // readers: the threads that read the copy; must outlive the call.
  CopySender(std::unique_ptr<StoreCopy> copy, Reply<v1::BackupResponse> stream,
             ThreadPool& readers);

  void Start();
  // Ends the call and frees the copy at once, even if the client does not read the error.
  void End(const absl::Status& status) { stream_->End(status); }

  // The time at which the client last took a chunk.
  [[nodiscard]] Clock::time_point last_taken() const noexcept { return last_taken_; }

 private:
  void PostNext();
  // Runs on a reading thread. Errors: those of StoreCopy::Read.
  absl::Status SendNext();

  const std::unique_ptr<StoreCopy> copy_;
  const Reply<v1::BackupResponse> stream_;
  ThreadPool& readers_;
  std::atomic<Clock::time_point> last_taken_;
  // The following members belong to the posted task. At most one task is posted at a time.
  std::unique_ptr<XXH3_state_t, decltype(&XXH3_freeState)> hash_;
  std::vector<char> chunk_;
  std::int64_t sent_bytes_ = 0;
};

}  // namespace calibd::server

#endif  // CALIBD_SERVER_API_COPY_SENDER_H_
