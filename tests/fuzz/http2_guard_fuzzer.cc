// The guard of HTTP/2 connections. An input consists of the bytes of client and server, and the
// time between them. The output does not depend on how the input is divided into pieces. It equals
// the input unless a call or the connection was ended or a GOAWAY refused later calls. All memory
// is released.
#include <nghttp2/nghttp2.h>
#include <spdlog/spdlog.h>

#include <algorithm>
#include <chrono>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <string_view>

#include "fuzz/require.h"
#include "fuzz/text_input.h"
#include "inputs.pb.h"
#include "server/net/http2_guard.h"

namespace calibd::server {
namespace {

using fuzz::Http2Connection;
using testing::Require;

constexpr std::string_view kPreface = NGHTTP2_CLIENT_MAGIC;
constexpr std::size_t kMemory = std::size_t{4} << 20;
constexpr std::size_t kMaxTimes = 1100;
// Maximum number of pieces of the bytes that are sent at once.
constexpr std::size_t kMaxPieces = 500;
constexpr std::size_t kMaxZeros = 100'000;
constexpr std::size_t kMaxSent = std::size_t{4} << 20;
// Number of bytes of a preface or a frame header that the guard may keep until more arrive.
constexpr std::size_t kMaxKept = 24;

std::string Uint32(std::uint32_t value) {
  std::string bytes;
  for (const int shift : {24, 16, 8, 0}) bytes += static_cast<char>(value >> shift & 0xffU);
  return bytes;
}

// Lengths up to 126 fit into one byte.
std::string HpackText(const std::string& text) {
  const std::string_view bytes = std::string_view(text).substr(0, 126);
  return static_cast<char>(bytes.size()) + std::string(bytes);
}

std::string ToBytes(const Http2Connection::Payload& payload) {
  switch (payload.kind_case()) {
    case Http2Connection::Payload::kBytes:
      return payload.bytes();
    case Http2Connection::Payload::kField:
      return std::string(1, '\0') + HpackText(payload.field().name()) +
             HpackText(payload.field().value());
    case Http2Connection::Payload::kMessageLength:
      return std::string(1, '\0') + Uint32(payload.message_length());
    case Http2Connection::Payload::kNumber:
      return Uint32(payload.number());
    case Http2Connection::Payload::kZeros:
      return std::string(std::min<std::size_t>(payload.zeros(), kMaxZeros), '\0');
    case Http2Connection::Payload::KIND_NOT_SET:
      break;
  }
  return {};
}

std::string ToBytes(const Http2Connection::Frame& frame) {
  std::string payload;
  for (const Http2Connection::Payload& part : frame.payload()) payload += ToBytes(part);
  const auto length =
      frame.has_length() ? frame.length() : static_cast<std::uint32_t>(payload.size());
  std::string bytes;
  std::uint32_t stream_id = frame.stream_id();
  for (std::size_t i = std::clamp<std::size_t>(frame.times(), 1, kMaxTimes);
       i > 0 && bytes.size() < kMaxSent; --i) {
    bytes += Uint32(length).substr(1) + static_cast<char>(frame.type()) +
             static_cast<char>(frame.flags()) + Uint32(stream_id) + payload;
    stream_id += 2;
  }
  return bytes;
}

// Returns whether a frame of this type begins after this many bytes.
bool HasFrame(std::string_view bytes, std::size_t after, std::uint8_t type) {
  FrameReader reader;
  std::string_view rest = bytes;
  while (const auto part = reader.Next(rest)) {
    if (part->is_header && reader.frame().type == type &&
        bytes.size() - rest.size() >= after + kFrameHeaderBytes) {
      return true;
    }
  }
  return false;
}

// The bytes of a client without its header blocks. They pass later, when they are complete, and
// each in one frame.
std::string WithoutHeaders(std::string_view bytes) {
  const std::size_t preface = std::min(bytes.size(), kPreface.size());
  std::string kept(bytes.substr(0, preface));
  FrameReader reader;
  std::string_view rest = bytes.substr(preface);
  while (const auto part = reader.Next(rest)) {
    const std::uint8_t type = reader.frame().type;
    if (type != NGHTTP2_HEADERS && type != NGHTTP2_CONTINUATION) kept += part->bytes;
  }
  return kept;
}

// One connection through the guard.
class Connection {
 public:
  // piece: number of bytes that are passed on at once; larger for long inputs.
  Connection(bool restricted, std::size_t piece) : piece_(piece) {
    guard_ = std::make_unique<Http2Guard>(
        shared_, peer_, [restricted] { return restricted; }, now_);
  }

  void Play(const Http2Connection& input) {
    if (!input.without_preface()) Send(NGHTTP2_CLIENT_MAGIC, true);
    for (const Http2Connection::Event& event : input.events()) {
      Play(event);
      if (guard_->closed()) break;
    }
  }

  // Ends the connection, and checks what must be true then.
  void Finish() {
    if (guard_->closed()) {
      const std::string client = to_client;
      const std::string server = to_server;
      Send("more", true);
      Send("more", false);
      Require(to_client == client && to_server == server, "nothing passes after the end");
    } else if (!EndedCalls() && !retired_at_.has_value() &&
               !HasFrame(from_server, 0, NGHTTP2_GOAWAY)) {
      Require(IsPrefix(to_client, from_server), "what the server sends passes as it is");
      Require(IsPrefix(WithoutHeaders(to_server), WithoutHeaders(from_client)),
              "what the client sends passes as it is, except header blocks");
    }
    if (retired_at_.has_value() && *retired_at_ >= kPreface.size()) {
      Require(!HasFrame(std::string_view(to_server).substr(kPreface.size()),
                        *retired_at_ - kPreface.size(), NGHTTP2_HEADERS),
              "a retired connection begins no call");
    }
    guard_.reset();
    Require(memory_.reserved() == 0 && peer_->messages().reserved() == 0, "all memory is returned");
  }

  [[nodiscard]] bool closed() const { return guard_->closed(); }

  std::string from_client;
  std::string from_server;
  std::string to_client;
  std::string to_server;

 private:
  void Play(const Http2Connection::Event& event) {
    switch (event.kind_case()) {
      case Http2Connection::Event::kClient:
        Send(ToBytes(event.client()), true);
        break;
      case Http2Connection::Event::kServer:
        Send(ToBytes(event.server()), false);
        break;
      case Http2Connection::Event::kMilliseconds:
        now_ += std::chrono::milliseconds(event.milliseconds());
        guard_->Tick(now_, output_);
        TakeOutput();
        break;
      case Http2Connection::Event::kDrain:
        guard_->BeginDrain(now_, output_);
        TakeOutput();
        break;
      case Http2Connection::Event::kRetire:
        guard_->Retire(now_, output_);
        TakeOutput();
        if (!retired_at_.has_value()) retired_at_ = to_server.size();
        break;
      case Http2Connection::Event::kClientBytes:
        Send(event.client_bytes(), true);
        break;
      case Http2Connection::Event::kServerBytes:
        Send(event.server_bytes(), false);
        break;
      case Http2Connection::Event::KIND_NOT_SET:
        break;
    }
  }

  void Send(const std::string& bytes, bool client) {
    std::string& sent = client ? from_client : from_server;
    sent += bytes;
    std::string_view rest = bytes;
    const std::size_t size = std::max(piece_, bytes.size() / kMaxPieces);
    while (!rest.empty()) {
      // A separate copy, so that reading beyond its end is detected.
      const std::string piece(rest.substr(0, size));
      rest.remove_prefix(piece.size());
      client ? guard_->FromClient(piece, now_, output_) : guard_->FromServer(piece, now_, output_);
      TakeOutput();
    }
    Require(memory_.reserved() <= memory_.limit(), "the budget is kept");
    Require(guard_->closed() || guard_->open_calls() <=
                                    shared_.limits.max_concurrent_streams + Http2Guard::kExtraCalls,
            "open calls are limited");
  }

  void TakeOutput() {
    for (const std::string_view piece : output_.to_client.pieces()) to_client += piece;
    for (const std::string_view piece : output_.to_server.pieces()) to_server += piece;
    output_.Clear();
  }

  [[nodiscard]] bool EndedCalls() const {
    for (std::size_t i = 0; i < RelayStatistics::kCallEnds.size(); ++i) {
      if (statistics_.ended(i) > 0) return true;
    }
    return false;
  }

  static bool IsPrefix(const std::string& passed, const std::string& sent) {
    return sent.starts_with(passed) && sent.size() - passed.size() <= kMaxKept;
  }

  const std::size_t piece_;
  ByteBudget memory_{kMemory};
  RelayStatistics statistics_;
  Http2Guard::Shared shared_{.limits = {}, .memory = memory_, .statistics = statistics_};
  const std::shared_ptr<PeerLimits> peer_ = std::make_shared<PeerLimits>("127.0.0.1", kMemory / 2);
  Http2Guard::Time now_{std::chrono::hours(1)};
  Http2Guard::Output output_;
  std::unique_ptr<Http2Guard> guard_;
  // The size of to_server at that time.
  std::optional<std::size_t> retired_at_;
};

}  // namespace
}  // namespace calibd::server

CALIBD_FUZZ_MESSAGE(calibd::fuzz::Http2Connection, input) {
  using namespace calibd::server;
  static const bool is_silent = (spdlog::set_level(spdlog::level::off), true);
  static_cast<void>(is_silent);
  Connection whole(input.restricted(), kMaxSent);
  Connection pieces(input.restricted(), 1 + input.piece() % 100);
  whole.Play(input);
  pieces.Play(input);
  Require(whole.closed() == pieces.closed() && whole.to_client == pieces.to_client,
          "what reaches the client does not depend on the pieces");
  // Some bytes of a frame that closes the connection may have passed.
  Require(whole.to_server == pieces.to_server ||
              (whole.closed() && (whole.to_server.starts_with(pieces.to_server) ||
                                  pieces.to_server.starts_with(whole.to_server))),
          "what reaches the server does not depend on the pieces");
  whole.Finish();
  pieces.Finish();
}
