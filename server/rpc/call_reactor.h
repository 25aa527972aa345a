#ifndef CALIBD_SERVER_RPC_CALL_REACTOR_H_
#define CALIBD_SERVER_RPC_CALL_REACTOR_H_

#include <grpcpp/support/server_callback.h>

#include <cstddef>
#include <deque>
#include <functional>
#include <memory>
#include <mutex>
#include <optional>
#include <type_traits>
#include <utility>

#include "absl/status/status.h"
#include "server/api/call.h"
#include "server/net/call_memory.h"
#include "server/rpc/grpc_status.h"

namespace calibd::server {

// One gRPC call. Reactor: gRPC's ServerUnaryReactor, ServerWriteReactor or ServerBidiReactor.
// Messages are queued until gRPC has taken them, and occupy the memory of calls until the client
// has. Thread-safe.
template <typename Reactor, typename Response>
class CallReactor : public Reactor, public Sink<Response> {
 public:
  // response: gRPC's object for the response of a unary call, otherwise null.
  CallReactor(CallContext context, CallMemory& memory, Response* response)
      : Sink<Response>(std::move(context)),
        reservation_(memory, this->context().caller),
        response_(response) {}

  // Keeps the call alive until gRPC is done with it. self: this call.
  void KeepAlive(std::shared_ptr<CallReactor> self) { self_ = std::move(self); }

  bool Send(Response response) override {
    absl::Status queued;
    {
      const std::lock_guard lock(mutex_);
      if (!IsIdleLocked()) return false;
      queued = QueueLocked(std::move(response));
      AdvanceLocked();
    }
    if (!queued.ok()) End(queued);
    return queued.ok();
  }
  void SendLast(Response response) override { End(absl::OkStatus(), &response); }
  void End(absl::Status status) override { End(std::move(status), nullptr); }

  [[nodiscard]] bool idle() const override {
    const std::lock_guard lock(mutex_);
    return IsIdleLocked();
  }
  [[nodiscard]] bool ended() const override {
    const std::lock_guard lock(mutex_);
    return end_status_.has_value();
  }

  void OnTaken(std::function<void()> on_taken) override {
    const std::lock_guard lock(mutex_);
    if (!end_status_.has_value()) on_taken_ = std::move(on_taken);
  }
  void OnEnd(std::function<void()> on_end) override {
    {
      const std::lock_guard lock(mutex_);
      if (!end_status_.has_value() && !cancelled_) {
        on_end_ = std::move(on_end);
        return;
      }
    }
    on_end();
  }

  // A unary call continues until its work ends it, which OnEnd may stop. gRPC drops the response.
  void OnCancel() override {
    std::function<void()> on_end;
    {
      const std::lock_guard lock(mutex_);
      cancelled_ = true;
      if constexpr (kUnary) on_end = std::exchange(on_end_, nullptr);
    }
    if (on_end) on_end();
    if constexpr (!kUnary) {
      this->Guard(Stage::kCancel, [] { return GoneError(); });
    }
  }

  // The call had ended before.
  void OnDone() override {
    // Destroyed after the lock is released.
    std::shared_ptr<CallReactor> self;
    const std::lock_guard lock(mutex_);
    reservation_.Release(reservation_.bytes());
    self = std::move(self_);
  }

 protected:
  // Implementation of OnWriteDone.
  void Written(bool ok) {
    std::function<void()> on_taken;
    {
      const std::lock_guard lock(mutex_);
      writing_ = false;
      PopLocked();
      cancelled_ = cancelled_ || !ok;
      if (!cancelled_ && !end_status_.has_value()) on_taken = on_taken_;
    }
    if (!ok) End(GoneError());
    this->Guard(Stage::kWritten, [this, &on_taken] {
      if (on_taken) on_taken();
      const std::lock_guard lock(mutex_);
      AdvanceLocked();
    });
  }

  // All of these functions are called with mutex_ held.

  // Queues a message. Errors: ResourceExhausted if there is no memory for it.
  absl::Status QueueLocked(Response response) {
    const std::size_t bytes = ResponseMemory(response);
    absl::Status reserved = reservation_.Add(bytes);
    if (reserved.ok()) {
      queue_.push_back({.response = std::move(response), .reserved = bytes});
    }
    return reserved;
  }

  // Reserves memory for a request that is kept. Errors: ResourceExhausted. OnDone releases what is
  // still reserved.
  absl::Status ReserveLocked(std::size_t bytes) { return reservation_.Add(bytes); }
  void ReleaseLocked(std::size_t bytes) { reservation_.Release(bytes); }

  // Ends the call. last: a message that is sent first; may be null.
  void EndLocked(absl::Status status, Response* last) {
    if (!end_status_.has_value()) {
      if (last != nullptr && !cancelled_) status.Update(QueueLocked(std::move(*last)));
      end_status_ = std::move(status);
    }
    AdvanceLocked();
  }

  // Takes the next possible step: writes a message, or finishes the call. gRPC always reports the
  // end of a write, even if the call is cancelled.
  virtual void AdvanceLocked() {
    if (finished_ || writing_) return;
    while (cancelled_ && !queue_.empty()) PopLocked();
    if constexpr (kUnary) {
      if (!queue_.empty()) *response_ = std::move(queue_.front().response);
    } else if (!queue_.empty()) {
      writing_ = true;
      this->StartWrite(&queue_.front().response);
      return;
    }
    if (end_status_.has_value() && (cancelled_ || MayFinishLocked())) {
      finished_ = true;
      this->Finish(ToGrpcStatus(*end_status_));
    }
  }

  // True if nothing more will be sent once the queue is empty. Called after the call has ended.
  [[nodiscard]] virtual bool MayFinishLocked() const { return true; }

  static absl::Status GoneError() { return absl::CancelledError("the client has disconnected"); }

  mutable std::mutex mutex_;
  // Everything below is guarded by mutex_.
  struct Unwritten {
    Response response;
    std::size_t reserved = 0;
  };
  // front() is being written while writing_ is true.
  std::deque<Unwritten> queue_;
  bool writing_ = false;
  std::optional<absl::Status> end_status_;
  bool cancelled_ = false;
  // True once gRPC was told to finish.
  bool finished_ = false;

 private:
  static constexpr bool kUnary = std::is_base_of_v<grpc::ServerUnaryReactor, Reactor>;

  void End(absl::Status status, Response* last) {
    std::function<void()> on_end;
    // Destroyed after the lock is released, because it may own the object that answers the call.
    std::function<void()> on_taken;
    {
      const std::lock_guard lock(mutex_);
      EndLocked(std::move(status), last);
      on_end = std::exchange(on_end_, nullptr);
      on_taken = std::exchange(on_taken_, nullptr);
    }
    if (on_end) on_end();
  }

  void PopLocked() {
    reservation_.Release(queue_.front().reserved);
    queue_.pop_front();
  }

  [[nodiscard]] bool IsIdleLocked() const { return queue_.empty() && !end_status_.has_value(); }

  // Keeps the call alive until OnDone.
  std::shared_ptr<CallReactor> self_;
  CallReservation reservation_;
  Response* const response_;
  std::function<void()> on_taken_;
  std::function<void()> on_end_;
};

}  // namespace calibd::server

#endif  // CALIBD_SERVER_RPC_CALL_REACTOR_H_
