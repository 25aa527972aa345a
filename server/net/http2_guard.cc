#include "server/net/http2_guard.h"

#include <algorithm>
#include <utility>

#include "absl/strings/str_cat.h"
#include "server/base/errors.h"

namespace calibd::server {
namespace {

constexpr std::uint8_t kPrefixBytes = 5;
// Each connection may use one part in this many of the memory for messages.
constexpr std::size_t kConnectionShare = 8;
// Bytes that gRPC keeps for a DATA frame in addition to its payload. In measurements, a frame of
// one byte took 53 bytes on one call, and up to 344 on many simultaneous calls, whose growing
// arrays fragment the heap.
constexpr std::size_t kFrameOverhead = 384;

}  // namespace

Http2Guard::Http2Guard(Shared& shared, std::shared_ptr<PeerLimits> peer,
                       std::function<bool()> restricted, Time now)
    : shared_(shared),
      peer_(std::move(peer)),
      restricted_(std::move(restricted)),
      start_(now),
      now_(now),
      client_took_(now),
      memory_(
          shared.memory, peer_,
          std::max(shared.memory.limit() / kConnectionShare, 2 * shared.limits.max_message_bytes)) {
}

Http2Guard::~Http2Guard() {
  shared_.memory.Release(tail_reserved_);
  // For the server, the end of a connection cancels its calls. Closing it must not be cheaper, but
  // one end alone is no excess, however many calls a connection may have.
  const auto cancelled = std::count_if(
      calls_.begin(), calls_.end(), [](const auto& entry) { return !entry.second.server_ended; });
  constexpr auto kMost = static_cast<std::size_t>(PeerLimits::kResetBurst);
  static_cast<void>(peer_->TakeResets(std::min(static_cast<std::size_t>(cancelled), kMost), now_));
  shared_.statistics.ending_calls().Left(calls_.size());
}

void Http2Guard::FromClient(std::string_view input, Time now, Output& output) {
  now_ = now;
  ReadPreface(input, output);
  while (!closed_) {
    const std::optional<FrameReader::Part> part = client_.Next(input);
    if (!part.has_value()) break;
    if (part->is_header) {
      BeginClientFrame(output);
      if (closed_) return;
    }
    if (client_frame_passes_ && !in_headers_) output.to_server.Append(part->bytes, part->is_copy);
    if (!part->is_header) ReadClientPayload(part->bytes, output);
    if (part->ends_frame && !closed_) EndClientFrame(output);
    SendInjected(output);
  }
}

void Http2Guard::ReadPreface(std::string_view& input, Output& output) {
  const std::string_view expected = kPreface.substr(preface_bytes_, input.size());
  if (!input.starts_with(expected)) {
    Close(CloseReason::kProtocolError, output);
    return;
  }
  output.to_server.AppendView(input.substr(0, expected.size()));
  input.remove_prefix(expected.size());
  preface_bytes_ += expected.size();
}

void Http2Guard::BeginClientFrame(Output& output) {
  const FrameHeader& frame = client_.frame();
  const bool is_data = frame.type == NGHTTP2_DATA;
  if (frame.length > (is_data ? server_max_frame_bytes_ : kMaxControlFrameBytes)) {
    Close(CloseReason::kFrameTooLarge, output);
    return;
  }
  if (in_headers_ != (frame.type == NGHTTP2_CONTINUATION)) {
    Close(CloseReason::kProtocolError, output);
    return;
  }
  body_.reset();
  if (frame.type == NGHTTP2_HEADERS) {
    // Each block changes the state of the compression: after a dropped block, all later blocks are
    // dropped too.
    client_frame_passes_ = last_served_ == kAnyCall;
  } else if (frame.type != NGHTTP2_CONTINUATION) {
    client_frame_passes_ = frame.stream_id <= last_served_;
  }
  switch (frame.type) {
    case NGHTTP2_DATA:
      BeginClientData(frame, output);
      break;
    case NGHTTP2_HEADERS:
      BeginClientHeaders(frame, output);
      break;
    case NGHTTP2_CONTINUATION:
      if (frame.length == 0 && ++empty_continuations_ > kMaxEmptyContinuations) {
        Close(CloseReason::kHeaderBlockTooLarge, output);
      }
      break;
    case NGHTTP2_RST_STREAM:
      CountReset(output);
      break;
    case NGHTTP2_WINDOW_UPDATE:
      break;
    default:
      CountControlFrame(output);
  }
}

void Http2Guard::BeginClientData(const FrameHeader& frame, Output& output) {
  if (frame.length == 0 && !frame.has(NGHTTP2_FLAG_END_STREAM)) CountControlFrame(output);
  body_.emplace(frame);
  if (!client_frame_passes_) {
    // Dropped frames do not use up the flow-control window that gRPC gave to the client.
    if (frame.length > 0) inject_to_client_ += WindowUpdateFrame(0, frame.length);
    return;
  }
  server_window_ -= frame.length;
  if (const auto call = calls_.find(frame.stream_id); call != calls_.end()) {
    // Padding would count, but no client pads and states a length.
    if (!TakeBody(call->second, frame.length, frame.has(NGHTTP2_FLAG_END_STREAM))) {
      Close(CloseReason::kMalformedHeaders, output);
      return;
    }
    call->second.server_window -= frame.length;
    call->second.client_sent = now_;
    if (!call->second.server_ended) {
      static_cast<void>(ReserveOrEnd(call->first, call->second, kFrameOverhead, output));
    }
  }
}

void Http2Guard::BeginClientHeaders(const FrameHeader& frame, Output& output) {
  body_.emplace(frame);
  in_headers_ = true;
  empty_continuations_ = 0;
  headers_end_call_ = frame.has(NGHTTP2_FLAG_END_STREAM);
  headers_begin_call_ =
      client_frame_passes_ && frame.stream_id % 2 == 1 && frame.stream_id > last_call_;
  // What follows a dropped block is dropped too.
  headers_.Begin(!client_frame_passes_ ? std::nullopt
                 : headers_begin_call_ ? std::optional(HeaderKind::kRequest)
                                       : std::optional(HeaderKind::kTrailers));
  header_bytes_.clear();
  if (headers_begin_call_) {
    OpenCall(frame.stream_id, output);
  } else {
    CountControlFrame(output);
  }
}

void Http2Guard::ReadClientPayload(std::string_view bytes, Output& output) {
  const FrameHeader& frame = client_.frame();
  if (body_.has_value()) {
    bytes = body_->Read(bytes);
    if (body_->invalid()) {
      Close(CloseReason::kProtocolError, output);
      return;
    }
  }
  if (in_headers_) {
    if (client_frame_passes_) header_bytes_ += bytes;
    CheckHeaderBlock(headers_.Read(bytes), output);
  } else if (frame.type == NGHTTP2_DATA) {
    ReadMessages(frame.stream_id, bytes, output);
  }
}

void Http2Guard::CheckHeaderBlock(HeaderBlock::Result result, Output& output) {
  if (result == HeaderBlock::Result::kTooLarge) {
    Close(CloseReason::kHeaderBlockTooLarge, output);
  } else if (result == HeaderBlock::Result::kInvalid) {
    Close(CloseReason::kProtocolError, output);
  } else if (result == HeaderBlock::Result::kMalformed) {
    Close(CloseReason::kMalformedHeaders, output);
  }
}

bool Http2Guard::TakeBody(Call& call, std::uint64_t bytes, bool ends) {
  if (!call.body_left.has_value()) return true;
  if (bytes > *call.body_left) return false;
  *call.body_left -= bytes;
  return !ends || *call.body_left == 0;
}

void Http2Guard::EndClientFrame(Output& output) {
  const FrameHeader& frame = client_.frame();
  const std::string_view payload = client_.payload();
  if (in_headers_) {
    if (frame.has(NGHTTP2_FLAG_END_HEADERS)) EndHeaderBlock(output);
    return;
  }
  const auto call = calls_.find(frame.stream_id);
  switch (frame.type) {
    case NGHTTP2_DATA:
      shared_.memory.Release(std::exchange(tail_reserved_, 0));
      if (call != calls_.end() && frame.has(NGHTTP2_FLAG_END_STREAM)) {
        call->second.client_ended = true;
        MarkBusy(call->first, call->second);
        if (call->second.server_ended) Forget(call);
      }
      break;
    case NGHTTP2_RST_STREAM:
      if (call != calls_.end()) Forget(call);
      break;
    case NGHTTP2_SETTINGS:
      client_initial_window_ = FindSetting(payload, NGHTTP2_SETTINGS_INITIAL_WINDOW_SIZE)
                                   .value_or(client_initial_window_);
      break;
    case NGHTTP2_WINDOW_UPDATE:
      if (payload.size() >= 4 && frame.stream_id == 0) {
        client_window_ += ReadUint32(payload);
      } else if (payload.size() >= 4 && call != calls_.end()) {
        call->second.client_window += ReadUint32(payload);
      }
      break;
    default:
      break;
  }
  CloseIfDone(output);
}

void Http2Guard::EndHeaderBlock(Output& output) {
  in_headers_ = false;
  CheckHeaderBlock(headers_.End(), output);
  if (closed_) return;
  // Every frame of a block names the call.
  const std::uint32_t id = client_.frame().stream_id;
  const auto call = calls_.find(id);
  if (call != calls_.end()) {
    if (headers_begin_call_) call->second.body_left = headers_.content_length();
    if (!TakeBody(call->second, 0, headers_end_call_)) {
      Close(CloseReason::kMalformedHeaders, output);
      return;
    }
  }
  if (client_frame_passes_) {
    output.to_server.AppendCopy(HeadersFrame(id, headers_end_call_, header_bytes_));
  }
  if (call == calls_.end()) return;
  if (headers_begin_call_ && !headers_.health_check() && RefuseExcess(call->first, output)) return;
  if (headers_end_call_) {
    if (!client_frame_passes_) {
      // The trailers were dropped. gRPC does not use their fields, but they end the request.
      inject_to_server_ += EndStreamFrame(call->first);
    }
    call->second.client_ended = true;
    MarkBusy(call->first, call->second);
    if (call->second.server_ended) Forget(call);
  }
}

void Http2Guard::OpenCall(std::uint32_t id, Output& output) {
  last_call_ = id;
  Call& call = calls_[id];
  call.began = now_;
  call.client_took = now_;
  call.client_sent = now_;
  if (calls_.size() > shared_.limits.max_concurrent_streams + kExtraCalls) {
    Close(CloseReason::kTooManyCalls, output);
  }
}

void Http2Guard::ReadMessages(std::uint32_t id, std::string_view bytes, Output& output) {
  while (!bytes.empty()) {
    const auto found = calls_.find(id);
    if (found == calls_.end() || found->second.server_ended) return;
    Call& call = found->second;
    if (call.prefix_bytes < kPrefixBytes) {
      // The prefix of a message is a compression flag and the length in network byte order.
      call.message_length = call.message_length << 8U | static_cast<unsigned char>(bytes.front());
      bytes.remove_prefix(1);
      if (++call.prefix_bytes < kPrefixBytes) continue;
      if (!BeginMessage(id, call, output)) return;
    }
    const std::size_t taken = std::min<std::size_t>(call.message_left, bytes.size());
    bytes.remove_prefix(taken);
    call.message_left -= static_cast<std::uint32_t>(taken);
    if (call.message_left == 0) {
      call.prefix_bytes = 0;
      call.unread_bytes += std::exchange(call.incomplete_bytes, 0);
      MarkBusy(id, call);
    }
  }
}

bool Http2Guard::BeginMessage(std::uint32_t id, Call& call, Output& output) {
  const std::uint32_t length = call.message_length;
  if (length > shared_.limits.max_message_bytes) {
    EndCall(id, CallEnd::kMessageTooLarge,
            MakeError(absl::StatusCode::kResourceExhausted, "MESSAGE_TOO_LARGE",
                      absl::StrCat("the message has ", length, " bytes, expected at most ",
                                   shared_.limits.max_message_bytes, " (max-message-bytes)")),
            output);
    return false;
  }
  call.message_left = length;
  return ReserveOrEnd(id, call, length, output);
}

void Http2Guard::FromServer(std::string_view input, Time now, Output& output) {
  now_ = now;
  while (!closed_) {
    const std::optional<FrameReader::Part> part = server_.Next(input);
    if (!part.has_value()) break;
    if (part->is_header) server_frame_passes_ = BeginServerFrame();
    if (server_frame_passes_) output.to_client.Append(part->bytes, part->is_copy);
    if (!part->is_header) ReadServerPayload(part->bytes);
    if (part->ends_frame) EndServerFrame(output);
    SendInjected(output);
  }
}

bool Http2Guard::BeginServerFrame() {
  const FrameHeader& frame = server_.frame();
  const bool ended = std::find(ended_.begin(), ended_.end(), frame.stream_id) != ended_.end();
  switch (frame.type) {
    case NGHTTP2_DATA:
      if (ended) {
        // Dropped frames do not use up the flow-control window that the client gave to the server.
        if (frame.length > 0) inject_to_server_ += WindowUpdateFrame(0, frame.length);
        return false;
      }
      client_window_ -= frame.length;
      client_took_ = now_;
      break;
    case NGHTTP2_HEADERS:
      server_in_headers_ = true;
      server_headers_end_call_ = frame.has(NGHTTP2_FLAG_END_STREAM);
      server_body_.emplace(frame);
      responses_.Begin(!ended);
      break;
    case NGHTTP2_CONTINUATION:
      server_body_.reset();
      return responses_.passes();
    case NGHTTP2_RST_STREAM:
    case NGHTTP2_WINDOW_UPDATE:
      return !ended;
    case NGHTTP2_GOAWAY:
      // It could name a later call than the guard's own GOAWAY, which HTTP/2 forbids.
      return !retired_.has_value();
    default:
      return true;
  }
  if (const auto found = calls_.find(frame.stream_id); found != calls_.end()) {
    Call& call = found->second;
    if (frame.type == NGHTTP2_DATA) {
      call.client_window -= frame.length;
      call.client_took = now_;
    }
    call.response_started = true;
    last_used_call_ = std::max(last_used_call_, frame.stream_id);
    call.server_ended = call.server_ended || frame.has(NGHTTP2_FLAG_END_STREAM);
    memory_.Release(std::exchange(call.unread_bytes, 0));
  }
  return frame.type != NGHTTP2_HEADERS || responses_.passes();
}

void Http2Guard::ReadServerPayload(std::string_view bytes) {
  const std::uint8_t type = server_.frame().type;
  if (type != NGHTTP2_HEADERS && type != NGHTTP2_CONTINUATION) return;
  responses_.Read(server_body_.has_value() ? server_body_->Read(bytes) : bytes);
}

void Http2Guard::EndResponseBlock(Output& output) {
  const bool passed = responses_.passes();
  const std::optional<std::string> block = responses_.End();
  server_in_headers_ = false;
  if (block.has_value()) {
    output.to_client.AppendCopy(
        HeadersFrame(server_.frame().stream_id, server_headers_end_call_, *block));
  } else if (responses_.broken() && !passed) {
    Close(CloseReason::kProtocolError, output);
  }
}

void Http2Guard::EndServerFrame(Output& output) {
  const FrameHeader& frame = server_.frame();
  const std::string_view payload = server_.payload();
  const auto call = calls_.find(frame.stream_id);
  switch (frame.type) {
    case NGHTTP2_HEADERS:
    case NGHTTP2_CONTINUATION:
      if (frame.has(NGHTTP2_FLAG_END_HEADERS)) EndResponseBlock(output);
      [[fallthrough]];
    case NGHTTP2_DATA:
      if (call != calls_.end() && call->second.server_ended && call->second.client_ended) {
        Forget(call);
      }
      break;
    case NGHTTP2_RST_STREAM:
      if (payload.size() >= 4 && ReadUint32(payload) != NGHTTP2_NO_ERROR) CountReset(output);
      if (call != calls_.end()) Forget(call);
      break;
    case NGHTTP2_SETTINGS:
      server_initial_window_ = FindSetting(payload, NGHTTP2_SETTINGS_INITIAL_WINDOW_SIZE)
                                   .value_or(server_initial_window_);
      server_max_frame_bytes_ =
          FindSetting(payload, NGHTTP2_SETTINGS_MAX_FRAME_SIZE).value_or(server_max_frame_bytes_);
      break;
    case NGHTTP2_WINDOW_UPDATE:
      if (payload.size() >= 4 && frame.stream_id == 0) {
        server_window_ += ReadUint32(payload);
      } else if (payload.size() >= 4 && call != calls_.end()) {
        call->second.server_window += ReadUint32(payload);
        memory_.Release(std::exchange(call->second.unread_bytes, 0));
      }
      break;
    case NGHTTP2_GOAWAY:
      if (payload.size() >= 4) RefuseCallsAfter(ReadUint32(payload) & kAnyCall);
      break;
    default:
      break;
  }
  CloseIfDone(output);
}

}  // namespace calibd::server
