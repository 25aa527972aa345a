#include "server/net/http2_frame.h"

#include <algorithm>
#include <memory>
#include <new>
#include <utility>
#include <vector>

#include "absl/strings/escaping.h"
#include "absl/strings/str_cat.h"
#include "server/base/status_mapping.h"

namespace calibd::server {
namespace {

constexpr std::size_t kMaxKeptPayload = 16 << 10;
constexpr std::uint32_t kPriorityBytes = 5;
constexpr std::size_t kSettingBytes = 6;
// Every receiver accepts frames of this size.
constexpr std::size_t kMaxHeaderFragment = 16 << 10;

std::uint32_t Byte(char c) { return static_cast<unsigned char>(c); }

// Returns the 4 bytes of the value in network byte order.
std::string Uint32(std::uint32_t value) {
  std::string bytes;
  for (const int shift : {24, 16, 8, 0}) bytes += static_cast<char>((value >> shift) & 0xffU);
  return bytes;
}

std::string Frame(std::uint8_t type, std::uint8_t flags, std::uint32_t stream_id,
                  std::string_view payload) {
  std::string frame = Uint32((static_cast<std::uint32_t>(payload.size()) << 8U) | type);
  frame += static_cast<char>(flags);
  frame += Uint32(stream_id);
  return frame.append(payload);
}

// Encodes a status message for a header as gRPC does.
std::string PercentEncode(std::string_view text) {
  constexpr char kDigits[] = "0123456789ABCDEF";
  std::string encoded;
  for (const char c : text) {
    if (c >= ' ' && c <= '~' && c != '%') {
      encoded += c;
    } else {
      encoded += {'%', kDigits[Byte(c) >> 4U], kDigits[Byte(c) & 0xfU]};
    }
  }
  return encoded;
}

}  // namespace

std::string EncodeHeaderFields(std::vector<HeaderField> fields) {
  std::vector<nghttp2_nv> pairs;
  pairs.reserve(fields.size());
  for (HeaderField& field : fields) {
    pairs.push_back({.name = reinterpret_cast<std::uint8_t*>(field.name.data()),
                     .value = reinterpret_cast<std::uint8_t*>(field.value.data()),
                     .namelen = field.name.size(),
                     .valuelen = field.value.size(),
                     .flags = NGHTTP2_NV_FLAG_NO_INDEX});
  }
  nghttp2_hd_deflater* raw = nullptr;
  if (nghttp2_hd_deflate_new(&raw, NGHTTP2_DEFAULT_HEADER_TABLE_SIZE) != 0) throw std::bad_alloc();
  const std::unique_ptr<nghttp2_hd_deflater, decltype(&nghttp2_hd_deflate_del)> deflater(
      raw, &nghttp2_hd_deflate_del);
  std::string block(nghttp2_hd_deflate_bound(raw, pairs.data(), pairs.size()), '\0');
  const auto size = nghttp2_hd_deflate_hd(raw, reinterpret_cast<std::uint8_t*>(block.data()),
                                          block.size(), pairs.data(), pairs.size());
  if (size < 0) throw std::bad_alloc();
  block.resize(static_cast<std::size_t>(size));
  return block;
}

std::uint32_t ReadUint32(std::string_view bytes) {
  return Byte(bytes[0]) << 24U | Byte(bytes[1]) << 16U | Byte(bytes[2]) << 8U | Byte(bytes[3]);
}

std::optional<std::uint32_t> FindSetting(std::string_view payload, std::uint16_t identifier) {
  std::optional<std::uint32_t> value;
  for (; payload.size() >= kSettingBytes; payload.remove_prefix(kSettingBytes)) {
    if ((Byte(payload[0]) << 8U | Byte(payload[1])) == identifier) {
      value = ReadUint32(payload.substr(2));
    }
  }
  return value;
}

std::string RstStreamFrame(std::uint32_t stream_id, std::uint32_t error_code) {
  return Frame(NGHTTP2_RST_STREAM, NGHTTP2_FLAG_NONE, stream_id, Uint32(error_code));
}

std::string WindowUpdateFrame(std::uint32_t stream_id, std::uint32_t increment) {
  return Frame(NGHTTP2_WINDOW_UPDATE, NGHTTP2_FLAG_NONE, stream_id, Uint32(increment));
}

std::string HeadersFrame(std::uint32_t stream_id, bool ends_stream, std::string_view block) {
  std::string frames;
  std::uint8_t type = NGHTTP2_HEADERS;
  int flags = ends_stream ? NGHTTP2_FLAG_END_STREAM : NGHTTP2_FLAG_NONE;
  do {
    const std::string_view fragment = block.substr(0, kMaxHeaderFragment);
    block.remove_prefix(fragment.size());
    if (block.empty()) flags |= NGHTTP2_FLAG_END_HEADERS;
    frames += Frame(type, static_cast<std::uint8_t>(flags), stream_id, fragment);
    type = NGHTTP2_CONTINUATION;
    flags = NGHTTP2_FLAG_NONE;
  } while (!block.empty());
  return frames;
}

std::string EndStreamFrame(std::uint32_t stream_id) {
  return Frame(NGHTTP2_DATA, NGHTTP2_FLAG_END_STREAM, stream_id, "");
}

std::string GoAwayFrame(std::uint32_t last_stream_id, std::uint32_t error_code,
                        std::string_view debug_text) {
  const std::string payload = Uint32(last_stream_id) + Uint32(error_code);
  return Frame(NGHTTP2_GOAWAY, NGHTTP2_FLAG_NONE, 0, payload + std::string(debug_text));
}

std::string StatusFrame(std::uint32_t stream_id, const absl::Status& status,
                        bool response_started) {
  const rpc::Status wire = ToRpcStatus(status);
  std::vector<HeaderField> fields;
  if (!response_started) {
    fields = {{":status", "200"}, {"content-type", "application/grpc"}};
  }
  // Base64 without padding, as gRPC requires.
  const std::string details = absl::Base64Escape(wire.SerializeAsString());
  fields.push_back({"grpc-status", absl::StrCat(wire.code())});
  fields.push_back({"grpc-message", PercentEncode(wire.message())});
  fields.push_back(
      {"grpc-status-details-bin", std::string(details, 0, details.find_last_not_of('=') + 1)});
  return Frame(NGHTTP2_HEADERS, NGHTTP2_FLAG_END_HEADERS | NGHTTP2_FLAG_END_STREAM, stream_id,
               EncodeHeaderFields(std::move(fields)));
}

std::optional<FrameReader::Part> FrameReader::Next(std::string_view& input) {
  if (input.empty()) return std::nullopt;
  if (payload_left_ == 0) return ReadHeader(input);
  Part part;
  part.bytes = input.substr(0, payload_left_);
  input.remove_prefix(part.bytes.size());
  payload_left_ -= static_cast<std::uint32_t>(part.bytes.size());
  part.ends_frame = payload_left_ == 0;
  if (frame_.type == NGHTTP2_RST_STREAM || frame_.type == NGHTTP2_SETTINGS ||
      frame_.type == NGHTTP2_GOAWAY || frame_.type == NGHTTP2_WINDOW_UPDATE) {
    payload_.append(part.bytes.substr(0, kMaxKeptPayload - payload_.size()));
  }
  return part;
}

std::optional<FrameReader::Part> FrameReader::ReadHeader(std::string_view& input) {
  Part part;
  part.is_header = true;
  if (header_.size() == kFrameHeaderBytes) header_.clear();
  if (header_.empty() && input.size() >= kFrameHeaderBytes) {
    part.bytes = input.substr(0, kFrameHeaderBytes);
    input.remove_prefix(kFrameHeaderBytes);
  } else {
    const std::string_view more = input.substr(0, kFrameHeaderBytes - header_.size());
    header_.append(more);
    input.remove_prefix(more.size());
    if (header_.size() < kFrameHeaderBytes) return std::nullopt;
    part.bytes = header_;
    part.is_copy = true;
  }
  frame_ = {.length = ReadUint32(part.bytes) >> 8U,
            .type = static_cast<std::uint8_t>(part.bytes[3]),
            .flags = static_cast<std::uint8_t>(part.bytes[4]),
            .stream_id = ReadUint32(part.bytes.substr(5)) & 0x7fffffffU};
  payload_left_ = frame_.length;
  payload_.clear();
  part.ends_frame = payload_left_ == 0;
  return part;
}

FrameBody::FrameBody(const FrameHeader& frame)
    : padded_(frame.has(NGHTTP2_FLAG_PADDED)),
      skip_(frame.type == NGHTTP2_HEADERS && frame.has(NGHTTP2_FLAG_PRIORITY) ? kPriorityBytes : 0),
      left_(frame.length) {
  if (left_ < skip_ + (padded_ ? 1 : 0)) {
    invalid_ = true;
    left_ = 0;
    return;
  }
  left_ -= skip_;
}

std::string_view FrameBody::Read(std::string_view bytes) {
  if (invalid_ || bytes.empty()) {
    return {};
  }
  if (padded_) {
    const std::uint32_t padding = Byte(bytes.front()) + 1;
    bytes.remove_prefix(1);
    padded_ = false;
    if (padding > left_) {
      invalid_ = true;
      return {};
    }
    left_ -= padding;
  }
  const std::size_t skipped = std::min<std::size_t>(skip_, bytes.size());
  bytes.remove_prefix(skipped);
  skip_ -= static_cast<std::uint32_t>(skipped);
  bytes = bytes.substr(0, left_);
  left_ -= static_cast<std::uint32_t>(bytes.size());
  return bytes;
}

}  // namespace calibd::server
