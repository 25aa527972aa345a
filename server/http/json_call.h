#ifndef CALIBD_SERVER_HTTP_JSON_CALL_H_
#define CALIBD_SERVER_HTTP_JSON_CALL_H_

#include <google/protobuf/message.h>

#include <deque>
#include <functional>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <utility>

#include "absl/status/status.h"
#include "server/api/call.h"
#include "server/net/call_memory.h"

namespace calibd::server {

// The messages of one call, between the function that answers it, on any thread, and its HTTP
// connection. Messages occupy the memory of calls until the connection has written
// them. Thread-safe.
class JsonCall {
 public:
  using Message = std::unique_ptr<google::protobuf::Message>;
  // What the connection has to do next: to write a message, and to end the call after it.
  struct Step {
    Message message;
    std::optional<absl::Status> end;
  };

  // peer: the client's address with its port. stream: false if the connection takes only the last
  // message; Send then sends nothing. wake: called whenever there may be a new step, with a lock
  // held; it must not call this object.
  JsonCall(CallMemory& memory, std::string peer, bool stream, std::function<void()> wake)
      : stream_(stream), reservation_(memory, std::move(peer)), wake_(std::move(wake)) {}

  // For the function that answers; see Sink.
  bool Send(Message message);
  void End(absl::Status status, Message last);
  [[nodiscard]] bool idle() const;
  [[nodiscard]] bool ended() const;
  void OnTaken(std::function<void()> on_taken);
  void OnEnd(std::function<void()> on_end);

  // For the connection. Returns each step once.
  [[nodiscard]] Step Take();
  // The message of the last step was written.
  void Taken();
  // The connection is gone. `wake` is not called any more.
  void Disconnect();

 private:
  absl::Status HoldLocked(Message message);

  const bool stream_;
  mutable std::mutex mutex_;
  // Everything below is guarded by mutex_.
  CallReservation reservation_;
  std::function<void()> wake_;
  std::deque<Message> messages_;
  // The connection is writing a message.
  bool writing_ = false;
  std::optional<absl::Status> end_;
  bool end_taken_ = false;
  std::function<void()> on_taken_;
  std::function<void()> on_end_;
};

// Answers a call over HTTP.
template <typename Response>
class JsonSink final : public Sink<Response> {
 public:
  JsonSink(CallContext context, std::shared_ptr<JsonCall> call)
      : Sink<Response>(std::move(context)), call_(std::move(call)) {}

  bool Send(Response response) override { return call_->Send(Own(std::move(response))); }
  void SendLast(Response response) override {
    call_->End(absl::OkStatus(), Own(std::move(response)));
  }
  void End(absl::Status status) override { call_->End(std::move(status), nullptr); }
  [[nodiscard]] bool idle() const override { return call_->idle(); }
  [[nodiscard]] bool ended() const override { return call_->ended(); }
  void OnTaken(std::function<void()> on_taken) override { call_->OnTaken(std::move(on_taken)); }
  void OnEnd(std::function<void()> on_end) override { call_->OnEnd(std::move(on_end)); }

 private:
  static JsonCall::Message Own(Response response) {
    return std::make_unique<Response>(std::move(response));
  }

  const std::shared_ptr<JsonCall> call_;
};

}  // namespace calibd::server

#endif  // CALIBD_SERVER_HTTP_JSON_CALL_H_
