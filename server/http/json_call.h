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
#include "absl/status/statusor.h"
#include "server/api/call.h"
#include "server/net/call_memory.h"

namespace calibd::server {

struct JsonRoute;

// The answers of one call, between the function that answers it, on any thread, and its HTTP
// connection. That thread prints each message, after it has reserved the memory. Thread-safe.
class JsonCall {
 public:
  using Message = google::protobuf::Message;
  // What the connection writes: JSON with a line break, or a server-sent event.
  struct Text {
    std::string text;
    // The memory of the text.
    std::unique_ptr<CallReservation> memory;
  };
  // What the connection has to do next: to write a text, and to end the call after it.
  struct Step {
    std::optional<Text> text;
    std::optional<absl::Status> end;
  };

  // peer: the client's address with its port. route: outlives the call. Only a stream of events
  // takes other messages than the last one; Send otherwise sends nothing. wake: called whenever
  // there may be a new step, with a lock held; it must not call this object.
  JsonCall(CallMemory& memory, std::string peer, const JsonRoute& route, std::function<void()> wake)
      : memory_(memory), peer_(std::move(peer)), route_(route), wake_(std::move(wake)) {}

  // The function that answers calls these; see Sink.
  bool Send(const Message& message);
  // last: may be null.
  void End(absl::Status status, const Message* last);
  [[nodiscard]] bool idle() const;
  [[nodiscard]] bool ended() const;
  void OnTaken(std::function<void()> on_taken);
  void OnEnd(std::function<void()> on_end);

  // The connection calls these. Returns each step once.
  [[nodiscard]] Step Take();
  // The text of the last step was written.
  void Taken();
  // The connection is gone. `wake` is not called any more.
  void Disconnect();

 private:
  // Errors: ResourceExhausted if there is no memory for the text; those of route_.part.
  absl::StatusOr<Text> Print(const Message& message) const;
  [[nodiscard]] bool IsIdleLocked() const;

  CallMemory& memory_;
  const std::string peer_;
  const JsonRoute& route_;
  mutable std::mutex mutex_;
  // Everything below is guarded by mutex_.
  std::function<void()> wake_;
  std::deque<Text> texts_;
  // Send is printing a message.
  bool printing_ = false;
  // The connection is writing a text.
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

  bool Send(Response response) override { return call_->Send(response); }
  void SendLast(Response response) override { call_->End(absl::OkStatus(), &response); }
  void End(absl::Status status) override { call_->End(std::move(status), nullptr); }
  [[nodiscard]] bool idle() const override { return call_->idle(); }
  [[nodiscard]] bool ended() const override { return call_->ended(); }
  void OnTaken(std::function<void()> on_taken) override { call_->OnTaken(std::move(on_taken)); }
  void OnEnd(std::function<void()> on_end) override { call_->OnEnd(std::move(on_end)); }

 private:
  const std::shared_ptr<JsonCall> call_;
};

}  // namespace calibd::server

#endif  // CALIBD_SERVER_HTTP_JSON_CALL_H_
