#ifndef CALIBD_SERVER_NET_HTTP2_GUARD_H_
#define CALIBD_SERVER_NET_HTTP2_GUARD_H_

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <string_view>

#include "absl/container/flat_hash_map.h"
#include "absl/status/status.h"
#include "server/base/token_bucket.h"
#include "server/net/byte_budget.h"
#include "server/net/byte_list.h"
#include "server/net/header_block.h"
#include "server/net/http2_frame.h"
#include "server/net/message_memory.h"
#include "server/net/peer_limits.h"
#include "server/net/relay_statistics.h"
#include "server/net/response_blocks.h"

namespace calibd::server {

// Inspects the bytes of one HTTP/2 connection between a client and gRPC's server, and limits what
// the client can make the server store or do. It passes the bytes immediately and unchanged, except
// the header blocks of the client: each passes in one HEADERS frame when it is complete and was
// checked, so that gRPC never sees a malformed one. It inserts frames of its own between the frames
// of the connection to end a call or the connection. It drops the frames of calls that it has
// ended, and of calls that begin after a GOAWAY.
//
// A connection with a malformed header block, or with a body that its content-length contradicts,
// is closed: one of its calls cannot be refused alone, because the block changes the compression of
// later ones. It limits the size of frames, header blocks and messages, the memory of messages that
// are incomplete or not consumed by the server, the number of calls, and the rates of resets and
// control frames. It ends a call whose client sends or takes nothing for a minute although the
// client could, and one without a first message after 15 s. A call whose client has sent no whole
// message yet has cost the server little: it neither keeps the connection busy nor delays a drain.
//
// It does no I/O, starts no thread and reads no clock. Not thread-safe.
class Http2Guard {
 public:
  using Time = std::chrono::steady_clock::time_point;

  static constexpr std::size_t kMaxControlFrameBytes = 16 << 10;
  // Per header block. Every other frame of a block holds at least one byte of it.
  static constexpr int kMaxEmptyContinuations = 32;
  // The server advertises this many calls more than max_concurrent_streams. A gRPC client silently
  // queues the calls beyond the advertised number; the guard refuses them with a reason instead. A
  // client with still more open calls is closed.
  static constexpr std::size_t kExtraCalls = 1000;
  static constexpr double kControlFrameRate = 10000;
  static constexpr double kControlFrameBurst = 10000;
  static constexpr std::chrono::seconds kStallTimeout{60};
  // Maximum time until the first call of a connection.
  static constexpr std::chrono::seconds kFirstCallTimeout{15};
  // Maximum time until a call begins its first message.
  static constexpr std::chrono::seconds kFirstMessageTimeout{15};
  // During a drain: maximum time until the server's GOAWAY passes. Then calls that began during the
  // drain end too, if they have sent no whole message.
  static constexpr std::chrono::seconds kDrainTimeout{1};
  // Maximum time for the open calls of an evicted connection that is restricted to health checks.
  static constexpr std::chrono::seconds kHealthCheckTimeout{1};

  struct Limits {
    std::size_t max_message_bytes = 1 << 20;
    // Maximum number of simultaneous calls on one connection. Further calls are refused, except for
    // health checks.
    std::size_t max_concurrent_streams = 100;
  };

  // State that all connections share. It must outlive them.
  struct Shared {
    Limits limits;
    ByteBudget& memory;
    RelayStatistics& statistics;
  };

  // Bytes to be sent to each side.
  struct Output {
    ByteList to_client;
    ByteList to_server;

    void Clear() {
      to_client.Clear();
      to_server.Clear();
    }
  };

  // restricted: called when a call begins that is not a health check; returns true if the call must
  // be refused because there are too many connections.
  Http2Guard(Shared& shared, std::shared_ptr<PeerLimits> peer, std::function<bool()> restricted,
             Time now);
  ~Http2Guard();
  Http2Guard(const Http2Guard&) = delete;
  Http2Guard& operator=(const Http2Guard&) = delete;

  // input: the next bytes from the client or from the server. Appends the bytes to be sent to
  // `output`, as views of `input` if they pass unchanged. now: must not decrease.
  void FromClient(std::string_view input, Time now, Output& output);
  void FromServer(std::string_view input, Time now, Output& output);

  // Ends stalled calls. Call it about once a second.
  void Tick(Time now, Output& output);
  // Begins the shutdown of the server: calls without a whole message end, and the connection is
  // closed as soon as it has no calls.
  void BeginDrain(Time now, Output& output);
  // Makes room for another connection. A GOAWAY tells the client which calls are served, the server
  // never sees later ones, and the connection is closed when the served calls have ended. Calls
  // without a whole message are not served.
  void Retire(Time now, Output& output);
  // Closes the connection. If the client is not at fault, the GOAWAY has the code NO_ERROR.
  void Close(CloseReason reason, Output& output);

  // True if nothing passes any more: send the remaining output, and then close both sockets.
  [[nodiscard]] bool closed() const noexcept { return closed_; }
  // Number of calls that have begun and not ended, without refused ones.
  [[nodiscard]] std::size_t open_calls() const noexcept { return calls_.size(); }
  // True if no open call has sent a whole message.
  [[nodiscard]] bool idle() const noexcept { return busy_calls_ == 0; }

 private:
  struct Call {
    // HTTP/2 stream states.
    bool client_ended = false;
    bool server_ended = false;
    bool response_started = false;
    // True once the client has sent a whole message, or the end of its request.
    bool busy = false;
    // The time at which the call began. It moves on while the client may not send its first
    // message.
    Time began;

    // The client's current message.
    std::uint8_t prefix_bytes = 0;
    std::uint32_t message_length = 0;
    std::uint32_t message_left = 0;
    // Bytes reserved for the current message, and for complete messages that the server has not
    // consumed.
    std::size_t incomplete_bytes = 0;
    std::size_t unread_bytes = 0;

    // The window of each receiver, relative to its initial size.
    std::int64_t client_window = 0;
    std::int64_t server_window = 0;
    // The last time at which the client took or sent something, or did not have to.
    Time client_took;
    Time client_sent;

    // What is left of the content-length of the request; unset without one.
    std::optional<std::uint64_t> body_left;

    [[nodiscard]] bool message_incomplete() const { return prefix_bytes > 0; }
  };
  using Calls = absl::flat_hash_map<std::uint32_t, Call>;

  static constexpr std::string_view kPreface = NGHTTP2_CLIENT_MAGIC;
  // The largest stream id. gRPC's first GOAWAY names it, so that calls that are already on the way
  // are still served.
  static constexpr std::uint32_t kAnyCall = 0x7fffffff;

  void ReadPreface(std::string_view& input, Output& output);
  void BeginClientFrame(Output& output);
  void BeginClientData(const FrameHeader& frame, Output& output);
  void BeginClientHeaders(const FrameHeader& frame, Output& output);
  void ReadClientPayload(std::string_view bytes, Output& output);
  void EndClientFrame(Output& output);
  void EndHeaderBlock(Output& output);
  // Ends a call that has just begun if it is one too many; returns whether it was ended.
  [[nodiscard]] bool RefuseExcess(std::uint32_t id, Output& output);
  void CheckHeaderBlock(HeaderBlock::Result result, Output& output);
  // Returns whether the body of a call agrees with its content-length after `bytes` more bytes.
  [[nodiscard]] static bool TakeBody(Call& call, std::uint64_t bytes, bool ends);
  void ReadMessages(std::uint32_t id, std::string_view bytes, Output& output);
  // Each returns whether the call continues; otherwise the call was ended.
  [[nodiscard]] bool BeginMessage(std::uint32_t id, Call& call, Output& output);
  [[nodiscard]] bool ReserveOrEnd(std::uint32_t id, Call& call, std::size_t bytes, Output& output);

  // Returns whether the frame is passed.
  [[nodiscard]] bool BeginServerFrame();
  void ReadServerPayload(std::string_view bytes);
  void EndResponseBlock(Output& output);
  void EndServerFrame(Output& output);

  void OpenCall(std::uint32_t id, Output& output);
  void MarkBusy(std::uint32_t id, Call& call);
  void RefuseCallsAfter(std::uint32_t id);
  // Ends the calls without a whole message.
  void EndUnsent(CallEnd reason, const absl::Status& status, Output& output);
  void EndCall(std::uint32_t id, CallEnd reason, const absl::Status& status, Output& output);
  // Ends a call for the server. The client must be told.
  void Abandon(Calls::iterator call, Output& output);
  [[nodiscard]] std::optional<CallEnd> FindStall(Call& call);
  void Forget(Calls::iterator call);
  void CountReset(Output& output);
  void CountControlFrame(Output& output);
  void CloseIfDone(Output& output);
  [[nodiscard]] bool CanAddForClient() const;
  [[nodiscard]] std::string GoAway(CloseReason reason) const;
  void SendInjected(Output& output);

  Shared& shared_;
  const std::shared_ptr<PeerLimits> peer_;
  const std::function<bool()> restricted_;
  const Time start_;
  Time now_;
  bool closed_ = false;
  std::optional<Time> drain_;
  std::optional<Time> retired_;

  // Number of bytes of the client's preface that were received.
  std::size_t preface_bytes_ = 0;
  FrameReader client_;
  FrameReader server_;
  // Frames to be inserted at the end of the frame or header block in their direction.
  std::string inject_to_client_;
  std::string inject_to_server_;

  // The client's current header block, and its bytes if it passes.
  HeaderBlock headers_;
  std::string header_bytes_;
  bool in_headers_ = false;
  bool headers_begin_call_ = false;
  bool headers_end_call_ = false;
  bool client_frame_passes_ = true;
  int empty_continuations_ = 0;
  // The body of the client's DATA or HEADERS frame.
  std::optional<FrameBody> body_;

  // The server's current header block, and the body of its HEADERS frame.
  ResponseBlocks responses_;
  std::optional<FrameBody> server_body_;
  bool server_headers_end_call_ = false;
  bool server_in_headers_ = false;
  bool server_frame_passes_ = true;

  Calls calls_;
  std::size_t busy_calls_ = 0;
  std::uint32_t last_call_ = 0;
  // The newest call that was busy, was answered or has ended. A GOAWAY must not exclude it.
  std::uint32_t last_used_call_ = 0;
  // Later calls are refused: their frames are dropped. Set by the GOAWAY frames to the client.
  std::uint32_t last_served_ = kAnyCall;
  // Calls that the guard ended, the newest last: the server may still send frames for them.
  std::deque<std::uint32_t> ended_;

  // The flow-control windows of the connection and the initial windows of calls, as set by each
  // receiver.
  std::int64_t client_window_ = NGHTTP2_INITIAL_CONNECTION_WINDOW_SIZE;
  std::int64_t server_window_ = NGHTTP2_INITIAL_CONNECTION_WINDOW_SIZE;
  std::int64_t client_initial_window_ = NGHTTP2_INITIAL_WINDOW_SIZE;
  std::int64_t server_initial_window_ = NGHTTP2_INITIAL_WINDOW_SIZE;
  std::uint32_t server_max_frame_bytes_ = kMaxControlFrameBytes;
  Time client_took_;

  TokenBucket control_frames_{kControlFrameRate, kControlFrameBurst};
  MessageMemory memory_;
  // Bytes that stay reserved for the rest of a DATA frame in which the guard ended the call: gRPC
  // keeps the rest until the RST_STREAM after the frame.
  std::size_t tail_reserved_ = 0;
};

}  // namespace calibd::server

#endif  // CALIBD_SERVER_NET_HTTP2_GUARD_H_
