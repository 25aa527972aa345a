#ifndef CALIBD_SERVER_RPC_BLOCKING_WRITER_H_
#define CALIBD_SERVER_RPC_BLOCKING_WRITER_H_

#include <grpcpp/server_context.h>

#include <chrono>
#include <condition_variable>
#include <memory>
#include <mutex>
#include <utility>

#include "absl/status/status.h"
#include "server/rpc/status_mapping.h"

namespace calibd::server {

// The answer of a call that a thread of ours writes message after message, at the pace at which
// the client reads. That thread calls Write and End; End once.
template <typename Response>
class BlockingWriter final : public grpc::ServerWriteReactor<Response>,
                             public std::enable_shared_from_this<BlockingWriter<Response>> {
 public:
  // Keeps itself alive until gRPC is done with it.
  static std::shared_ptr<BlockingWriter> Make() {
    auto writer = std::make_shared<BlockingWriter>();
    writer->self_ = writer;
    return writer;
  }

  // Waits until the message before is written. False when the client is gone, or took nothing
  // for a minute.
  bool Write(Response response) {
    std::unique_lock lock(mutex_);
    if (!changed_.wait_for(lock, kPatience, [this] { return cancelled_ || !writing_; })) {
      cancelled_ = true;
    }
    if (cancelled_) {
      return false;
    }
    written_ = std::move(response);
    writing_ = true;
    this->StartWrite(&written_);
    return true;
  }

  // Writes unless a message is still on its way. False when the client is gone.
  bool Offer(Response response) {
    const std::lock_guard lock(mutex_);
    if (!cancelled_ && !writing_) {
      written_ = std::move(response);
      writing_ = true;
      this->StartWrite(&written_);
    }
    return !cancelled_;
  }

  // Whether what is written may still be read.
  [[nodiscard]] bool wanted() const {
    const std::lock_guard lock(mutex_);
    return !cancelled_;
  }

  void End(const absl::Status& status) {
    std::unique_lock lock(mutex_);
    changed_.wait_for(lock, kPatience, [this] { return cancelled_ || !writing_; });
    // gRPC takes a status while a write is pending; it then fails.
    this->Finish(ToGrpcStatus(cancelled_ ? absl::CancelledError("the client is gone") : status));
  }

  void OnWriteDone(bool ok) override {
    const std::lock_guard lock(mutex_);
    writing_ = false;
    cancelled_ = cancelled_ || !ok;
    changed_.notify_all();
  }

  void OnCancel() override {
    const std::lock_guard lock(mutex_);
    cancelled_ = true;
    changed_.notify_all();
  }

  void OnDone() override {
    // Goes, maybe as the last owner, after the lock is released.
    std::shared_ptr<BlockingWriter> self;
    const std::lock_guard lock(mutex_);
    self = std::move(self_);
  }

 private:
  static constexpr std::chrono::seconds kPatience{60};

  mutable std::mutex mutex_;
  std::condition_variable changed_;
  // Itself, until OnDone.
  std::shared_ptr<BlockingWriter> self_;
  Response written_;
  bool writing_ = false;
  bool cancelled_ = false;
};

}  // namespace calibd::server

#endif  // CALIBD_SERVER_RPC_BLOCKING_WRITER_H_
