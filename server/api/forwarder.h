#ifndef CALIBD_SERVER_API_FORWARDER_H_
#define CALIBD_SERVER_API_FORWARDER_H_

#include <google/protobuf/message.h>

#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <utility>

#include "absl/status/status.h"
#include "server/api/call.h"
#include "server/store/store.h"

namespace calibd::server {

// The reply of a call of any method, for code that knows its messages by reflection only.
class AnyReply {
 public:
  virtual ~AnyReply() = default;
  [[nodiscard]] virtual Call& call() = 0;
  [[nodiscard]] virtual std::unique_ptr<google::protobuf::Message> NewResponse() const = 0;
  // See Sink. response: from NewResponse; its content is moved if it is sent. One thread at a time
  // may send.
  virtual bool Send(google::protobuf::Message& response) = 0;
  virtual void SendLast(google::protobuf::Message& response) = 0;
  virtual void OnTaken(std::function<void()> on_taken) = 0;
};

template <typename Response>
class AnyReplyOf final : public AnyReply {
 public:
  explicit AnyReplyOf(Reply<Response> reply) : reply_(std::move(reply)) {}

  [[nodiscard]] Call& call() override { return *reply_; }
  [[nodiscard]] std::unique_ptr<google::protobuf::Message> NewResponse() const override {
    return std::make_unique<Response>();
  }
  bool Send(google::protobuf::Message& response) override {
    // Otherwise the message would be lost.
    if (!reply_->idle()) return false;
    return reply_->Send(std::move(static_cast<Response&>(response)));
  }
  void SendLast(google::protobuf::Message& response) override {
    reply_->SendLast(std::move(static_cast<Response&>(response)));
  }
  void OnTaken(std::function<void()> on_taken) override { reply_->OnTaken(std::move(on_taken)); }

 private:
  const Reply<Response> reply_;
};

// Passes calls on to the process that owns the store. Thread-safe.
class Forwarder {
 public:
  virtual ~Forwarder() = default;

  // The process that answers calls in place of this one; nothing if this process answers.
  [[nodiscard]] virtual std::optional<Store::Owner> other_owner() const = 0;
  // Whether `id` names this process as an owner, so that who sends it has read it in the store.
  [[nodiscard]] virtual bool IsThis(std::string_view id) const = 0;

  // Has the owner answer a call of an identified caller. request: copied. endless: the response is
  // a stream whose messages are sent when they come; otherwise its last message is the answer, and
  // others are dropped while the client has not taken one. held: kept until the call ends. Errors:
  // ResourceExhausted if there is no room for the call. Errors of the call: those of the owner;
  // Unavailable (NOT_OWNER) if it does not answer.
  [[nodiscard]] virtual absl::Status Forward(const Store::Owner& owner,
                                             const google::protobuf::Message& request, bool endless,
                                             std::shared_ptr<void> held,
                                             std::shared_ptr<AnyReply> reply) = 0;
  // Ends the calls whose responses are streams with Unavailable (DRAINING), and takes no more of
  // them. The others end soon by themselves.
  virtual void Drain() = 0;
};

}  // namespace calibd::server

#endif  // CALIBD_SERVER_API_FORWARDER_H_
