#ifndef CALIBD_SERVER_API_CALL_H_
#define CALIBD_SERVER_API_CALL_H_

#include <functional>
#include <memory>
#include <string>
#include <utility>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "server/access/access_control.h"
#include "server/api/guard.h"

namespace calibd::server {

// The transport-independent context of a call.
struct CallContext {
  // Name of the method, such as "GetModel".
  const char* method = "";
  // The caller's address in the form of the transport, such as "ipv4:127.0.0.1:50312".
  std::string caller;
  // Whose share of jobs and watches the call takes; see OwnerOf.
  std::string owner{};
  // The caller's address for people.
  std::string address{};
  // Another server has forwarded the call, so that this one answers it or fails.
  bool forwarded = false;
  // Who calls. A call whose transport has not identified the caller is refused.
  absl::StatusOr<Identity> identity = absl::UnauthenticatedError("the caller was not identified");
};

// One call. No function blocks. Thread-safe.
class Call {
 public:
  explicit Call(CallContext context) : context_(std::move(context)) {}
  virtual ~Call() = default;
  Call(const Call&) = delete;
  Call& operator=(const Call&) = delete;

  [[nodiscard]] const CallContext& context() const noexcept { return context_; }

  // Ends the call once the transport has sent all messages. Only the first end counts.
  virtual void End(absl::Status status) = 0;
  [[nodiscard]] virtual bool ended() const = 0;
  // Called once when the call ends: with an answer, with an error, or because the client cancelled
  // it. Called at once if the call has ended.
  virtual void OnEnd(std::function<void()> on_end) = 0;
  // The call succeeds and has changed nothing, so that the audit log need not record it. Call it
  // before the answer.
  virtual void ChangesNothing() {}

  // Runs code that serves the call on any thread; an error or exception ends the call.
  template <typename Body>
  void Guard(Stage stage, const Body& body) {
    absl::Status status = Guarded(context_.method, stage, body);
    if (!status.ok()) End(std::move(status));
  }

 private:
  const CallContext context_;
};

// Takes the response of a call, or a stream of responses. The transport holds one message at a
// time, until the client has taken it; messages count against the memory of calls. A call that gets
// no memory ends with ResourceExhausted.
template <typename Response>
class Sink : public Call {
 public:
  using Call::Call;

  // Sends a message of a stream, unless the transport still holds one or the call has ended;
  // returns whether the message was sent.
  virtual bool Send(Response response) = 0;
  // Sends the only response, or the last one of a stream, and ends the call.
  virtual void SendLast(Response response) = 0;
  // True if Send would send a message now.
  [[nodiscard]] virtual bool idle() const = 0;
  // Sets a callback for each time the client has taken a message, until the call ends. The callback
  // may own the sink.
  virtual void OnTaken(std::function<void()> on_taken) = 0;

  // fill: writes the last response and returns the status with which the call ends.
  template <typename Fill>
  void Answer(const Fill& fill) {
    this->Guard(Stage::kAnswer, [&]() -> absl::Status {
      Response response;
      absl::Status status = fill(response);
      if (status.ok()) SendLast(std::move(response));
      return status;
    });
  }
};

template <typename Response>
using Reply = std::shared_ptr<Sink<Response>>;

}  // namespace calibd::server

#endif  // CALIBD_SERVER_API_CALL_H_
