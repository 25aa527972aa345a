#ifndef CALIBD_SERVER_RPC_RESPONSE_STREAM_H_
#define CALIBD_SERVER_RPC_RESPONSE_STREAM_H_

#include <grpcpp/server_context.h>

#include <functional>
#include <memory>
#include <mutex>
#include <optional>
#include <utility>

#include "absl/status/status.h"
#include "server/rpc/call_memory.h"
#include "server/rpc/guard.h"
#include "server/rpc/status_mapping.h"

namespace calibd::server {

// One call that is answered with a stream of messages. gRPC has one message at a time, until the
// client has taken it; meanwhile it counts against the memory of calls. A call that gets no memory
// ends with ResourceExhausted. No function waits. Thread-safe.
template <typename Response>
class ResponseStream final : public grpc::ServerWriteReactor<Response>,
                             public std::enable_shared_from_this<ResponseStream<Response>> {
 public:
  ResponseStream(const char* method, CallMemory& memory, const grpc::CallbackServerContext& context)
      : method_(method), reservation_(memory, context.peer()) {}

  // The call keeps itself alive until gRPC is done with it.
  static std::shared_ptr<ResponseStream> Begin(const char* method, CallMemory& memory,
                                               const grpc::CallbackServerContext& context) {
    auto stream = std::make_shared<ResponseStream>(method, memory, context);
    stream->self_ = stream;
    return stream;
  }

  // Called whenever the client has taken a message, until the call ends. It may own the stream.
  void OnTaken(std::function<void()> on_taken) {
    const std::lock_guard lock(mutex_);
    if (!end_status_.has_value()) {
      on_taken_ = std::move(on_taken);
    }
  }

  // Called once when the call ends, for whatever reason; at once if it has ended.
  void OnEnd(std::function<void()> on_end) {
    {
      const std::lock_guard lock(mutex_);
      if (!end_status_.has_value()) {
        on_end_ = std::move(on_end);
        return;
      }
    }
    on_end();
  }

  // Sends a message, unless gRPC still has the previous one or the call has ended; returns whether
  // the message was sent.
  bool Send(Response response) {
    absl::Status sent;
    {
      const std::lock_guard lock(mutex_);
      if (!IsIdleLocked()) {
        return false;
      }
      sent = StartLocked(std::move(response));
    }
    if (!sent.ok()) {
      End(sent);
    }
    return sent.ok();
  }

  // Sends a message once gRPC has none any more, and ends the call.
  void SendLast(Response response) { End(absl::OkStatus(), std::move(response)); }

  // Ends the call once gRPC has no message any more. Only the first end counts.
  void End(absl::Status status) { End(std::move(status), std::nullopt); }

  // Whether a message can be sent now.
  [[nodiscard]] bool idle() const {
    const std::lock_guard lock(mutex_);
    return IsIdleLocked();
  }
  [[nodiscard]] bool ended() const {
    const std::lock_guard lock(mutex_);
    return end_status_.has_value();
  }

  // Runs what another thread does for the call; an error or exception ends it.
  template <typename Body>
  void Guard(Stage stage, const Body& body) {
    const absl::Status status = Guarded(method_, stage, body);
    if (!status.ok()) {
      End(status);
    }
  }

  void OnWriteDone(bool ok) override {
    std::function<void()> on_taken;
    {
      const std::lock_guard lock(mutex_);
      sending_ = false;
      written_ = Response();
      reservation_.Release(reservation_.bytes());
      cancelled_ = cancelled_ || !ok;
      if (!cancelled_ && !end_status_.has_value()) {
        on_taken = on_taken_;
      }
    }
    if (!ok) {
      End(absl::CancelledError("the client is gone"));
    }
    Guard(Stage::kWritten, [this, &on_taken] {
      if (on_taken) {
        on_taken();
      }
      const std::lock_guard lock(mutex_);
      AdvanceLocked();
    });
  }

  void OnCancel() override {
    {
      const std::lock_guard lock(mutex_);
      cancelled_ = true;
      last_.reset();
    }
    Guard(Stage::kCancel, [this] { End(absl::CancelledError("the client is gone")); });
  }

  // The call has ended before.
  void OnDone() override {
    // Destroyed after the lock is released.
    std::shared_ptr<ResponseStream> self;
    const std::lock_guard lock(mutex_);
    reservation_.Release(reservation_.bytes());
    self = std::move(self_);
  }

 private:
  void End(absl::Status status, std::optional<Response> last) {
    std::function<void()> on_end;
    std::function<void()> on_taken;
    {
      const std::lock_guard lock(mutex_);
      if (!end_status_.has_value()) {
        end_status_ = std::move(status);
        if (!cancelled_) {
          last_ = std::move(last);
        }
        on_end = std::exchange(on_end_, nullptr);
        // Destroyed after the lock is released, as it may own what answers the call.
        on_taken = std::exchange(on_taken_, nullptr);
      }
      AdvanceLocked();
    }
    if (on_end) {
      on_end();
    }
  }

  [[nodiscard]] bool IsIdleLocked() const { return !sending_ && !end_status_.has_value(); }

  // Gives gRPC a message; an error if there is no memory for it.
  absl::Status StartLocked(Response response) {
    absl::Status reserved = reservation_.Add(ResponseMemory(response));
    if (reserved.ok()) {
      written_ = std::move(response);
      sending_ = true;
      this->StartWrite(&written_);
    }
    return reserved;
  }

  // Sends the last message and finishes, as far as gRPC has none. A message that gRPC still has
  // comes back by itself, also when the call is cancelled.
  void AdvanceLocked() {
    if (!end_status_.has_value() || sending_ || finished_) {
      return;
    }
    if (last_.has_value()) {
      const absl::Status sent = StartLocked(*std::exchange(last_, std::nullopt));
      if (sent.ok()) {
        return;
      }
      end_status_ = sent;
    }
    finished_ = true;
    this->Finish(ToGrpcStatus(*end_status_));
  }

  const char* const method_;
  mutable std::mutex mutex_;
  // Everything below is guarded by mutex_. Itself, until OnDone.
  std::shared_ptr<ResponseStream> self_;
  CallReservation reservation_;
  std::function<void()> on_taken_;
  std::function<void()> on_end_;
  Response written_;
  bool sending_ = false;
  // What is sent before the call ends.
  std::optional<Response> last_;
  std::optional<absl::Status> end_status_;
  bool cancelled_ = false;
  bool finished_ = false;
};

// Serves a call with a stream of answers. serve(stream): returns an error with which the call
// ends, or OK if the stream is taken care of.
template <typename Response, typename Request, typename Serve>
grpc::ServerWriteReactor<Response>* ServeStream(const char* method, CallMemory& memory,
                                                const grpc::CallbackServerContext& context,
                                                const Request& request, const Serve& serve) {
  const auto stream = ResponseStream<Response>::Begin(method, memory, context);
  stream->Guard(Stage::kStart, [&] { return serve(stream); });
  FreeRequest(request);
  return stream.get();
}

}  // namespace calibd::server

#endif  // CALIBD_SERVER_RPC_RESPONSE_STREAM_H_
