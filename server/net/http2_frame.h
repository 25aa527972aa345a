#ifndef CALIBD_SERVER_NET_HTTP2_FRAME_H_
#define CALIBD_SERVER_NET_HTTP2_FRAME_H_

#include <nghttp2/nghttp2.h>

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "absl/status/status.h"

namespace calibd::server {

// HTTP/2 frames (RFC 9113). Types, flags and error codes are nghttp2's NGHTTP2_... constants.

inline constexpr std::size_t kFrameHeaderBytes = 9;

struct FrameHeader {
  std::uint32_t length = 0;
  std::uint8_t type = 0;
  std::uint8_t flags = 0;
  std::uint32_t stream_id = 0;

  [[nodiscard]] bool has(std::uint8_t flag) const noexcept { return (flags & flag) != 0; }
};

// bytes: at least 4, in network byte order.
[[nodiscard]] std::uint32_t ReadUint32(std::string_view bytes);

// Returns the last value of a setting in the payload of a SETTINGS frame.
[[nodiscard]] std::optional<std::uint32_t> FindSetting(std::string_view payload,
                                                       std::uint16_t identifier);

[[nodiscard]] std::string RstStreamFrame(std::uint32_t stream_id, std::uint32_t error_code);
[[nodiscard]] std::string WindowUpdateFrame(std::uint32_t stream_id, std::uint32_t increment);

struct HeaderField {
  std::string name;
  std::string value;
};
// Returns a header block that refers to no other one, and to which no later one refers.
[[nodiscard]] std::string EncodeHeaderFields(std::vector<HeaderField> fields);

// block: a complete header block. After the first 16 KiB, the size of a frame that every peer
// accepts, it continues in CONTINUATION frames.
[[nodiscard]] std::string HeadersFrame(std::uint32_t stream_id, bool ends_stream,
                                       std::string_view block);
// An empty DATA frame that ends the client's request.
[[nodiscard]] std::string EndStreamFrame(std::uint32_t stream_id);
[[nodiscard]] std::string GoAwayFrame(std::uint32_t last_stream_id, std::uint32_t error_code,
                                      std::string_view debug_text);

// The HEADERS frame that ends a gRPC call. Its fields are never indexed, so that it can be inserted
// between the frames of a connection without changing the state of its compression.
// response_started: response headers were sent before.
[[nodiscard]] std::string StatusFrame(std::uint32_t stream_id, const absl::Status& status,
                                      bool response_started);

// Splits the bytes of one direction into frames, regardless of their fragmentation.
class FrameReader {
 public:
  // A frame header, or some bytes of a frame's payload.
  struct Part {
    std::string_view bytes;
    bool is_header = false;
    // True if the frame is complete.
    bool ends_frame = false;
    // If true, bytes is valid only until the next call; otherwise it is a view of the input.
    bool is_copy = false;
  };

  // Removes the next part from the input. Returns nothing when the input is used up; the bytes of
  // an incomplete frame header are kept.
  [[nodiscard]] std::optional<Part> Next(std::string_view& input);

  // The frame of the newest part.
  [[nodiscard]] const FrameHeader& frame() const noexcept { return frame_; }
  // The first 16 KiB of the payload so far, if the frame is RST_STREAM, SETTINGS, GOAWAY or
  // WINDOW_UPDATE.
  [[nodiscard]] std::string_view payload() const noexcept { return payload_; }
  // True if every part so far belongs to a complete frame.
  [[nodiscard]] bool between_frames() const noexcept { return payload_left_ == 0; }
  // Bytes of the payload that have not arrived.
  [[nodiscard]] std::size_t payload_left() const noexcept { return payload_left_; }

 private:
  [[nodiscard]] std::optional<Part> ReadHeader(std::string_view& input);

  std::string header_;
  FrameHeader frame_;
  std::uint32_t payload_left_ = 0;
  std::string payload_;
};

// The body of a DATA or HEADERS frame, without padding and priority.
class FrameBody {
 public:
  explicit FrameBody(const FrameHeader& frame);

  // bytes: the next bytes of the payload. Returns the bytes among them that belong to the body.
  [[nodiscard]] std::string_view Read(std::string_view bytes);
  // True if the padding is longer than the frame.
  [[nodiscard]] bool invalid() const noexcept { return invalid_; }

 private:
  bool padded_ = false;
  bool invalid_ = false;
  std::uint32_t skip_ = 0;
  std::uint32_t left_ = 0;
};

}  // namespace calibd::server

#endif  // CALIBD_SERVER_NET_HTTP2_FRAME_H_
