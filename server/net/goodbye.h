#ifndef CALIBD_SERVER_NET_GOODBYE_H_
#define CALIBD_SERVER_NET_GOODBYE_H_

#include <nghttp2/nghttp2.h>

#include <cstdint>

#include "server/net/relay_statistics.h"

namespace calibd::server {

// Content of the GOAWAY frame with which the relay closes a connection.
struct Goodbye {
  std::uint32_t error_code = NGHTTP2_ENHANCE_YOUR_CALM;
  const char* text = "";
};

[[nodiscard]] inline Goodbye GoodbyeOf(CloseReason reason) {
  switch (reason) {
    case CloseReason::kProtocolError:
      return {NGHTTP2_PROTOCOL_ERROR, "invalid HTTP/2"};
    case CloseReason::kFrameTooLarge:
      return {NGHTTP2_FRAME_SIZE_ERROR, "frame too large"};
    case CloseReason::kHeaderBlockTooLarge:
      return {.text = "header block larger than 16 KiB"};
    case CloseReason::kTooManyCalls:
      return {.text = "too many open calls"};
    case CloseReason::kTooManyResets:
      return {.text = "too many cancelled calls"};
    case CloseReason::kTooManyControlFrames:
      return {.text = "too many control frames"};
    case CloseReason::kClientReadsNothing:
      return {.text = "the client reads nothing"};
    case CloseReason::kMemoryExhausted:
      return {.text = "no memory for unread responses"};
    case CloseReason::kTooManyConnections:
      return {.text = "too many connections"};
    case CloseReason::kNoCall:
      return {NGHTTP2_NO_ERROR, "no call was made"};
    case CloseReason::kEvicted:
      return {NGHTTP2_NO_ERROR, "the connection makes room for another"};
    case CloseReason::kDrained:
      return {NGHTTP2_NO_ERROR, "the server is shutting down"};
  }
  return {};
}

}  // namespace calibd::server

#endif  // CALIBD_SERVER_NET_GOODBYE_H_
