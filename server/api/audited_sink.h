#ifndef CALIBD_SERVER_API_AUDITED_SINK_H_
#define CALIBD_SERVER_API_AUDITED_SINK_H_

#include <atomic>
#include <exception>
#include <functional>
#include <string>
#include <utility>

#include "absl/status/status.h"
#include "server/access/audit_log.h"
#include "server/api/call.h"

namespace calibd::server {

// The entry of a call for the audit log.
[[nodiscard]] inline AuditEntry EntryOf(const CallContext& call, std::string resource,
                                        absl::StatusCode status) {
  return {.principal = call.identity.ok() ? call.identity->name() : "",
          .address = call.address,
          .method = call.method,
          .resource = std::move(resource),
          .status = status};
}

// Passes everything on to the sink of a call, and records that it succeeds or fails. A stream
// succeeds with its first message, and may fail later.
template <typename Response>
class AuditedSink final : public Sink<Response> {
 public:
  // audit: outlives the call. resource: the name of the model, or "models/*".
  AuditedSink(Reply<Response> reply, AuditLog& audit, std::string resource)
      : Sink<Response>(reply->context()),
        reply_(std::move(reply)),
        audit_(audit),
        resource_(std::move(resource)) {}
  // A call whose client has cancelled it ends without a word.
  ~AuditedSink() override {
    try {
      Record(absl::StatusCode::kCancelled);
    } catch (const std::exception&) {
      // There was no memory for the entry.
    }
  }

  bool Send(Response response) override {
    if (!began_.exchange(true)) {
      audit_.Record(EntryOf(this->context(), resource_, absl::StatusCode::kOk));
    }
    return reply_->Send(std::move(response));
  }
  void SendLast(Response response) override {
    Record(absl::StatusCode::kOk);
    reply_->SendLast(std::move(response));
  }
  void End(absl::Status status) override {
    Record(status.code());
    reply_->End(std::move(status));
  }
  [[nodiscard]] bool idle() const override { return reply_->idle(); }
  [[nodiscard]] bool ended() const override { return reply_->ended(); }
  void OnTaken(std::function<void()> on_taken) override { reply_->OnTaken(std::move(on_taken)); }
  void OnEnd(std::function<void()> on_end) override { reply_->OnEnd(std::move(on_end)); }
  void ChangesNothing() override { recorded_ = true; }

 private:
  void Record(absl::StatusCode status) {
    if (recorded_.exchange(true)) return;
    if (status != absl::StatusCode::kOk) {
      // A caller without the right to change anything may cause it.
      audit_.RecordDenial(EntryOf(this->context(), resource_, status));
    } else if (!began_) {
      audit_.Record(EntryOf(this->context(), resource_, status));
    }
  }

  const Reply<Response> reply_;
  AuditLog& audit_;
  const std::string resource_;
  // The success of a stream was recorded.
  std::atomic<bool> began_ = false;
  // The end was recorded, or is not to be.
  std::atomic<bool> recorded_ = false;
};

}  // namespace calibd::server

#endif  // CALIBD_SERVER_API_AUDITED_SINK_H_
