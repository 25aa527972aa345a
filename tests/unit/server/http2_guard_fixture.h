#ifndef CALIBD_TESTS_UNIT_SERVER_HTTP2_GUARD_FIXTURE_H_
#define CALIBD_TESTS_UNIT_SERVER_HTTP2_GUARD_FIXTURE_H_

#include <gtest/gtest.h>
#include <nghttp2/nghttp2.h>

#include <chrono>
#include <cstdint>
#include <map>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "absl/strings/escaping.h"
#include "calibd/rpc/status.pb.h"
#include "server/net/http2_guard.h"

namespace calibd::server {

inline constexpr std::string_view kPreface = NGHTTP2_CLIENT_MAGIC;
inline constexpr std::size_t kMaxMessage = 1 << 20;
inline constexpr std::size_t kMemory = 64 << 20;

inline std::string Uint32(std::uint32_t value) {
  std::string bytes;
  for (const int shift : {24, 16, 8, 0}) bytes += static_cast<char>(value >> shift & 0xffU);
  return bytes;
}

inline std::string Frame(std::uint8_t type, int flags, std::uint32_t id,
                         std::string_view payload = "") {
  return Uint32(static_cast<std::uint32_t>(payload.size())).substr(1) + static_cast<char>(type) +
         static_cast<char>(flags) + Uint32(id) + std::string(payload);
}

// A field that is not indexed, of up to 16 KiB.
inline std::string Literal(std::string_view name, std::string_view value) {
  const auto text = [](std::string_view bytes) {
    std::string length;
    if (bytes.size() < 127) {
      length += static_cast<char>(bytes.size());
    } else {
      length += '\x7f';
      std::size_t rest = bytes.size() - 127;
      for (; rest >= 128; rest /= 128) length += static_cast<char>(rest % 128 | 128);
      length += static_cast<char>(rest);
    }
    return length + std::string(bytes);
  };
  return std::string(1, '\0') + text(name) + text(value);
}

inline std::string Request(std::string_view path = "/calibd.v1.IngestService/Observe") {
  return Literal(":method", "POST") + Literal(":scheme", "http") + Literal(":path", path) +
         Literal("content-type", "application/grpc");
}
inline std::string Headers(std::uint32_t id, std::string_view block, int flags = 0) {
  return Frame(NGHTTP2_HEADERS, NGHTTP2_FLAG_END_HEADERS | flags, id, block);
}
inline std::string Data(std::uint32_t id, std::string_view payload, int flags = 0) {
  return Frame(NGHTTP2_DATA, flags, id, payload);
}
inline std::string Reset(std::uint32_t id, std::uint32_t code = NGHTTP2_CANCEL) {
  return Frame(NGHTTP2_RST_STREAM, 0, id, Uint32(code));
}
inline std::string GoAway(std::uint32_t last_call) {
  return Frame(NGHTTP2_GOAWAY, 0, 0, Uint32(last_call) + Uint32(NGHTTP2_NO_ERROR));
}
inline std::string WindowUpdate(std::uint32_t id, std::uint32_t increment) {
  return Frame(NGHTTP2_WINDOW_UPDATE, 0, id, Uint32(increment));
}
inline std::string InitialWindow(std::uint32_t size) {
  return Frame(NGHTTP2_SETTINGS, 0, 0, std::string("\0\4", 2) + Uint32(size));
}
inline std::string Prefix(std::uint32_t length) { return std::string(1, '\0') + Uint32(length); }
inline std::string Message(std::uint32_t length) {
  return Prefix(length) + std::string(length, 'm');
}

struct ParsedFrame {
  FrameHeader header;
  std::string payload;
};

inline std::vector<ParsedFrame> Parse(std::string_view bytes) {
  std::vector<ParsedFrame> frames;
  FrameReader reader;
  while (const auto part = reader.Next(bytes)) {
    if (part->is_header) {
      frames.push_back({reader.frame(), ""});
    } else {
      frames.back().payload += part->bytes;
    }
  }
  return frames;
}

inline std::vector<ParsedFrame> FramesOf(std::string_view bytes, int type) {
  std::vector<ParsedFrame> frames = Parse(bytes);
  std::erase_if(frames, [type](const ParsedFrame& frame) { return frame.header.type != type; });
  return frames;
}

inline std::map<std::string, std::string> DecodeFields(std::string_view block) {
  nghttp2_hd_inflater* inflater = nullptr;
  EXPECT_EQ(nghttp2_hd_inflate_new(&inflater), 0);
  std::map<std::string, std::string> fields;
  int flags = 0;
  while ((flags & NGHTTP2_HD_INFLATE_FINAL) == 0) {
    nghttp2_nv field;
    const auto used = nghttp2_hd_inflate_hd2(inflater, &field, &flags,
                                             reinterpret_cast<const std::uint8_t*>(block.data()),
                                             block.size(), 1);
    if (used < 0) {
      ADD_FAILURE() << "invalid header block";
      break;
    }
    block.remove_prefix(static_cast<std::size_t>(used));
    if ((flags & NGHTTP2_HD_INFLATE_EMIT) != 0) {
      fields[std::string(reinterpret_cast<char*>(field.name), field.namelen)] =
          std::string(reinterpret_cast<char*>(field.value), field.valuelen);
    }
  }
  EXPECT_EQ(nghttp2_hd_inflate_get_dynamic_table_size(inflater), 0);
  nghttp2_hd_inflate_del(inflater);
  return fields;
}

// The reason and the details of the gRPC status that ended a call.
struct Ended {
  std::map<std::string, std::string> fields;
  std::string reason;
  bool retry = false;
};

inline Ended ParseEnd(const ParsedFrame& frame) {
  EXPECT_EQ(frame.header.type, NGHTTP2_HEADERS);
  EXPECT_TRUE(frame.header.has(NGHTTP2_FLAG_END_STREAM));
  EXPECT_TRUE(frame.header.has(NGHTTP2_FLAG_END_HEADERS));
  Ended ended;
  ended.fields = DecodeFields(frame.payload);
  std::string encoded = ended.fields["grpc-status-details-bin"];
  EXPECT_EQ(encoded.find('='), std::string::npos);
  encoded.append((4 - encoded.size() % 4) % 4, '=');
  std::string details;
  EXPECT_TRUE(absl::Base64Unescape(encoded, &details));
  rpc::Status status;
  EXPECT_TRUE(status.ParseFromString(details));
  for (const google::protobuf::Any& detail : status.details()) {
    if (rpc::ErrorInfo info; detail.type_url().ends_with("ErrorInfo")) {
      EXPECT_TRUE(info.ParseFromString(detail.value()));
      ended.reason = info.reason();
    }
    ended.retry = ended.retry || detail.type_url().ends_with("RetryInfo");
  }
  return ended;
}

class Http2GuardTest : public ::testing::Test {
 protected:
  // A connection whose client has sent its preface.
  struct Connection {
    explicit Connection(Http2GuardTest& the_test, std::shared_ptr<PeerLimits> peer = nullptr,
                        Http2Guard::Shared* shared = nullptr)
        : test(the_test),
          guard(
              shared == nullptr ? test.shared_ : *shared, peer == nullptr ? test.peer_ : peer,
              [this] { return restricted; }, test.now_) {
      Client(kPreface);
      Client(Frame(NGHTTP2_SETTINGS, 0, 0));
      Clear();
    }
    void Client(std::string_view bytes) {
      guard.FromClient(bytes, test.now_, output);
      Take();
    }
    void Server(std::string_view bytes) {
      guard.FromServer(bytes, test.now_, output);
      Take();
    }
    // Lets time pass, with one tick per second.
    void Pass(std::chrono::seconds time) {
      for (std::chrono::seconds passed{0}; passed < time; ++passed) {
        test.now_ += std::chrono::seconds(1);
        guard.Tick(test.now_, output);
        Take();
      }
    }
    void Take() {
      for (const std::string_view piece : output.to_client.pieces()) to_client += piece;
      for (const std::string_view piece : output.to_server.pieces()) to_server += piece;
      output.Clear();
    }
    void Clear() {
      to_client.clear();
      to_server.clear();
    }

    Http2GuardTest& test;
    bool restricted = false;
    Http2Guard guard;
    Http2Guard::Output output;
    std::string to_client;
    std::string to_server;
  };

  static std::size_t CallsRefused(const Connection& connection) {
    return FramesOf(connection.to_client, NGHTTP2_HEADERS).size();
  }
  std::int64_t Closed(CloseReason reason) {
    return statistics_.closed(static_cast<std::size_t>(reason));
  }
  std::int64_t CallsEnded(CallEnd reason) {
    return statistics_.ended(static_cast<std::size_t>(reason));
  }

  ByteBudget memory_{kMemory};
  RelayStatistics statistics_;
  Http2Guard::Shared shared_{
      .limits = {.max_message_bytes = kMaxMessage, .max_concurrent_streams = 32},
      .memory = memory_,
      .statistics = statistics_};
  std::shared_ptr<PeerLimits> peer_ = std::make_shared<PeerLimits>("127.0.0.1", kMemory / 2);
  Http2Guard::Time now_{std::chrono::hours(1)};
};

}  // namespace calibd::server

#endif  // CALIBD_TESTS_UNIT_SERVER_HTTP2_GUARD_FIXTURE_H_
