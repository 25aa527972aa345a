#include <algorithm>
#include <array>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "server/base/errors.h"
#include "server/net/http2_guard.h"

namespace calibd::server {
namespace {

constexpr std::size_t kMaxEndedCalls = 128;
constexpr std::chrono::seconds kRetryAfter{1};

// Content of the GOAWAY frame with which the relay closes a connection.
struct Goodbye {
  std::uint32_t error_code;
  const char* text;
};
// The GOAWAY frame of each CloseReason, in the order of the enum.
constexpr std::array<Goodbye, RelayStatistics::kCloseReasons.size()> kGoodbyes{{
    {NGHTTP2_PROTOCOL_ERROR, "invalid HTTP/2"},
    {NGHTTP2_FRAME_SIZE_ERROR, "frame too large"},
    {NGHTTP2_ENHANCE_YOUR_CALM, "header block larger than 16 KiB"},
    {NGHTTP2_PROTOCOL_ERROR, "malformed header fields, or a body unlike its content-length"},
    {NGHTTP2_ENHANCE_YOUR_CALM, "too many open calls"},
    {NGHTTP2_ENHANCE_YOUR_CALM, "too many cancelled calls"},
    {NGHTTP2_ENHANCE_YOUR_CALM, "too many control frames"},
    {NGHTTP2_ENHANCE_YOUR_CALM, "the client reads nothing"},
    {NGHTTP2_ENHANCE_YOUR_CALM, "no memory for unread responses"},
    {NGHTTP2_ENHANCE_YOUR_CALM, "too many connections"},
    {NGHTTP2_ENHANCE_YOUR_CALM, "the address is refused for a while"},
    {NGHTTP2_NO_ERROR, "no call was made"},
    {NGHTTP2_NO_ERROR, "the certificate of the client has expired"},
    {NGHTTP2_NO_ERROR, "the connection makes room for another"},
    {NGHTTP2_NO_ERROR, "the server is shutting down"},
}};

absl::Status Exhausted(std::string_view reason, std::string_view message) {
  return WithRetryDelay(MakeError(absl::StatusCode::kResourceExhausted, reason, message),
                        kRetryAfter);
}

absl::Status TooManyConnectionsError(const char* what) {
  return Exhausted(
      "TOO_MANY_CONNECTIONS",
      absl::StrCat(
          "there are too many connections (max-connections, max-connections-per-address): ", what,
          "; close unused connections or try again later"));
}

absl::Status StallError(CallEnd reason) {
  const char* text = "the client read nothing of the response for 60 s";
  if (reason == CallEnd::kMessageIncomplete) {
    text = "the client sent nothing of an incomplete message for 60 s";
  } else if (reason == CallEnd::kNoMessage) {
    text = "the client sent no message for 15 s after the call began";
  }
  return MakeError(absl::StatusCode::kDeadlineExceeded, "CLIENT_STALLED", text);
}

}  // namespace

bool Http2Guard::RefuseExcess(std::uint32_t id, Output& output) {
  if (restricted_()) {
    EndCall(id, CallEnd::kTooManyConnections,
            TooManyConnectionsError("this one may only check the health"), output);
    // It costs the server a call, like a reset.
    CountReset(output);
    return true;
  }
  if (calls_.size() <= shared_.limits.max_concurrent_streams) return false;
  EndCall(id, CallEnd::kTooManyCalls,
          Exhausted("TOO_MANY_CALLS",
                    absl::StrCat("this connection has ", shared_.limits.max_concurrent_streams,
                                 " open calls, the limit (max-concurrent-streams): open another "
                                 "connection, or try again when a call has ended")),
          output);
  CountReset(output);
  return true;
}

bool Http2Guard::ReserveOrEnd(std::uint32_t id, Call& call, std::size_t bytes, Output& output) {
  if (!memory_.TryReserve(bytes)) {
    EndCall(id, CallEnd::kMemoryExhausted,
            Exhausted("CALL_MEMORY_EXHAUSTED",
                      absl::StrCat("incomplete and unread requests occupy all the memory that "
                                   "this client may use of call-memory-bytes = ",
                                   shared_.memory.limit(), "; try again later")),
            output);
    return false;
  }
  call.incomplete_bytes += bytes;
  return true;
}

void Http2Guard::Tick(Time now, Output& output) {
  now_ = now;
  if (!closed_ && last_call_ == 0 && now - start_ >= kFirstCallTimeout) {
    Close(CloseReason::kNoCall, output);
  }
  if (!closed_ && retired_.has_value() && now - *retired_ >= kHealthCheckTimeout && restricted_()) {
    Close(CloseReason::kEvicted, output);
  }
  if (!closed_ && drain_.has_value() && now - *drain_ >= kDrainTimeout) {
    EndUnsent(CallEnd::kDrained, DrainingError(), output);
  }
  CloseIfDone(output);
  if (closed_) return;
  if (client_window_ > 0) client_took_ = now_;
  std::vector<std::pair<std::uint32_t, CallEnd>> stalled;
  for (auto& [id, call] : calls_) {
    if (const std::optional<CallEnd> reason = FindStall(call); reason.has_value()) {
      stalled.emplace_back(id, *reason);
    }
  }
  // The table of calls is unordered; sorting makes the output depend only on the input.
  std::sort(stalled.begin(), stalled.end());
  for (const auto& [id, reason] : stalled) EndCall(id, reason, StallError(reason), output);
  SendInjected(output);
}

// An exhausted window means that bytes are waiting, because gRPC fills windows completely.
std::optional<CallEnd> Http2Guard::FindStall(Call& call) {
  if (call.server_ended) return std::nullopt;
  if (client_initial_window_ + call.client_window > 0) call.client_took = now_;
  if (now_ - std::min(call.client_took, client_took_) >= kStallTimeout) {
    return CallEnd::kClientReadsNothing;
  }
  const bool client_may_send =
      server_window_ > 0 && server_initial_window_ + call.server_window > 0;
  if (!call.message_incomplete() || !client_may_send) call.client_sent = now_;
  if (now_ - call.client_sent >= kStallTimeout) return CallEnd::kMessageIncomplete;
  if (call.busy || call.message_incomplete()) return std::nullopt;
  if (!client_may_send) call.began = now_;
  if (now_ - call.began >= kFirstMessageTimeout) return CallEnd::kNoMessage;
  return std::nullopt;
}

void Http2Guard::MarkBusy(std::uint32_t id, Call& call) {
  if (call.busy) return;
  call.busy = true;
  ++busy_calls_;
  last_used_call_ = std::max(last_used_call_, id);
}

void Http2Guard::EndUnsent(CallEnd reason, const absl::Status& status, Output& output) {
  std::vector<std::uint32_t> unsent;
  for (const auto& [id, call] : calls_) {
    if (!call.busy && !call.server_ended) unsent.push_back(id);
  }
  std::sort(unsent.begin(), unsent.end());
  for (const std::uint32_t id : unsent) EndCall(id, reason, status, output);
}

void Http2Guard::EndCall(std::uint32_t id, CallEnd reason, const absl::Status& status,
                         Output& output) {
  const auto found = calls_.find(id);
  inject_to_client_ += StatusFrame(id, status, found->second.response_started);
  if (!found->second.client_ended) inject_to_client_ += RstStreamFrame(id, NGHTTP2_NO_ERROR);
  shared_.statistics.CountEnded(reason, peer_->address());
  Abandon(found, output);
}

void Http2Guard::Abandon(Calls::iterator call, Output& output) {
  const std::uint32_t id = call->first;
  inject_to_server_ += RstStreamFrame(id, NGHTTP2_CANCEL);
  Forget(call);
  ended_.push_back(id);
  // All calls of a connection may end at once.
  const std::size_t most = std::max(kMaxEndedCalls, shared_.limits.max_concurrent_streams);
  if (ended_.size() > most) ended_.pop_front();
  if (client_.frame().type == NGHTTP2_DATA && client_.frame().stream_id == id) {
    tail_reserved_ = client_.payload_left();
    if (!shared_.memory.TryReserve(tail_reserved_)) {
      tail_reserved_ = 0;
      Close(CloseReason::kMemoryExhausted, output);
    }
  }
}

void Http2Guard::Forget(Calls::iterator call) {
  memory_.Release(call->second.incomplete_bytes + call->second.unread_bytes);
  if (call->second.busy) --busy_calls_;
  last_used_call_ = std::max(last_used_call_, call->first);
  calls_.erase(call);
  shared_.statistics.ending_calls().Left();
}

void Http2Guard::CountReset(Output& output) {
  const bool many_end = shared_.statistics.ending_calls().many();
  if (!peer_->TakeResets(1, now_, many_end)) Close(CloseReason::kTooManyResets, output);
}

void Http2Guard::CountControlFrame(Output& output) {
  if (control_frames_.Take(now_)) return;
  peer_->Refuse(now_);
  Close(CloseReason::kTooManyControlFrames, output);
}

void Http2Guard::BeginDrain(Time now, Output& output) {
  now_ = now;
  drain_ = now;
  EndUnsent(CallEnd::kDrained, DrainingError(), output);
  CloseIfDone(output);
  SendInjected(output);
}

void Http2Guard::Retire(Time now, Output& output) {
  now_ = now;
  retired_ = now;
  // The GOAWAY excludes the newest calls without a whole message, so that the client may repeat
  // them. Older ones, which it cannot exclude, end with an error.
  const std::uint32_t served = last_used_call_;
  std::vector<std::uint32_t> excluded;
  for (const auto& [id, call] : calls_) {
    if (id > served) excluded.push_back(id);
  }
  std::sort(excluded.begin(), excluded.end());
  for (const std::uint32_t id : excluded) {
    if (in_headers_ && headers_begin_call_ && id == client_.frame().stream_id) {
      // The server has seen nothing of the call. The rest of its header block is dropped.
      client_frame_passes_ = false;
      Forget(calls_.find(id));
    } else {
      Abandon(calls_.find(id), output);
    }
  }
  RefuseCallsAfter(served);
  EndUnsent(CallEnd::kTooManyConnections,
            TooManyConnectionsError("this one makes room for another and has sent no message"),
            output);
  if (!calls_.empty()) inject_to_client_ += GoAway(CloseReason::kEvicted);
  CloseIfDone(output);
  SendInjected(output);
}

void Http2Guard::RefuseCallsAfter(std::uint32_t id) {
  last_served_ = std::min(last_served_, id);
  for (auto next = calls_.begin(); next != calls_.end();) {
    if (const auto call = next++; call->first > last_served_) Forget(call);
  }
}

void Http2Guard::CloseIfDone(Output& output) {
  if (!calls_.empty()) return;
  // Without a GOAWAY, the client would not know that its next call was not served.
  if (retired_.has_value() && CanAddForClient()) {
    Close(CloseReason::kEvicted, output);
  } else if (drain_.has_value() && (last_served_ != kAnyCall || now_ - *drain_ >= kDrainTimeout)) {
    Close(CloseReason::kDrained, output);
  }
}

void Http2Guard::Close(CloseReason reason, Output& output) {
  if (closed_) return;
  // Inside a frame of the server, nothing can be inserted.
  SendInjected(output);
  if (preface_bytes_ == kPreface.size() && CanAddForClient()) {
    output.to_client.AppendCopy(GoAway(reason));
  }
  closed_ = true;
  shared_.statistics.CountClosed(reason, peer_->address());
}

std::string Http2Guard::GoAway(CloseReason reason) const {
  const Goodbye& goodbye = kGoodbyes[static_cast<std::size_t>(reason)];
  return GoAwayFrame(std::min(last_call_, last_served_), goodbye.error_code, goodbye.text);
}

bool Http2Guard::CanAddForClient() const { return server_.between_frames() && !server_in_headers_; }

void Http2Guard::SendInjected(Output& output) {
  if (closed_) return;
  if (!inject_to_client_.empty() && CanAddForClient()) {
    output.to_client.AppendCopy(inject_to_client_);
    inject_to_client_.clear();
  }
  if (!inject_to_server_.empty() && client_.between_frames() && !in_headers_) {
    output.to_server.AppendCopy(inject_to_server_);
    inject_to_server_.clear();
  }
}

}  // namespace calibd::server
