#ifndef CALIBD_SERVER_NET_RELAY_STATISTICS_H_
#define CALIBD_SERVER_NET_RELAY_STATISTICS_H_

#include <array>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <string_view>

#include "server/net/ending_calls.h"

namespace calibd::server {

// Why the relay closed a connection.
enum class CloseReason {
  kProtocolError,
  kFrameTooLarge,
  kHeaderBlockTooLarge,
  kMalformedHeaders,
  kTooManyCalls,
  kTooManyResets,
  kTooManyControlFrames,
  kClientReadsNothing,
  kMemoryExhausted,
  kTooManyConnections,
  kAddressRefused,
  kNoCall,
  kCertificateExpired,
  kEvicted,
  kDrained,
};

// Why the relay ended a call.
enum class CallEnd {
  kMessageTooLarge,
  kMemoryExhausted,
  kClientReadsNothing,
  kMessageIncomplete,
  kNoMessage,
  kTooManyConnections,
  kTooManyCalls,
  kDrained,
};

// Counts the connections that the relay closes and the calls that it ends, and logs warnings about
// them, at most one in 10 s. Thread-safe.
class RelayStatistics {
 public:
  static constexpr std::array kCloseReasons{"protocol_error",
                                            "frame_too_large",
                                            "header_block_too_large",
                                            "malformed_headers",
                                            "too_many_calls",
                                            "too_many_resets",
                                            "too_many_control_frames",
                                            "client_reads_nothing",
                                            "memory_exhausted",
                                            "too_many_connections",
                                            "address_refused",
                                            "no_call",
                                            "certificate_expired",
                                            "evicted",
                                            "drained"};
  static constexpr std::array kCallEnds{
      "message_too_large", "memory_exhausted",     "client_reads_nothing", "message_incomplete",
      "no_message",        "too_many_connections", "too_many_calls",       "drained"};

  // peer: the address of the client.
  void CountClosed(CloseReason reason, std::string_view peer);
  void CountEnded(CallEnd reason, std::string_view peer);

  [[nodiscard]] EndingCalls& ending_calls() noexcept { return ending_calls_; }
  [[nodiscard]] std::int64_t closed(std::size_t reason) const { return closed_[reason]; }
  [[nodiscard]] std::int64_t ended(std::size_t reason) const { return ended_[reason]; }

 private:
  void Warn(const char* what, const char* reason, std::string_view peer);

  std::array<std::atomic<std::int64_t>, kCloseReasons.size()> closed_{};
  std::array<std::atomic<std::int64_t>, kCallEnds.size()> ended_{};
  EndingCalls ending_calls_;
  // Steady clock, in nanoseconds.
  std::atomic<std::int64_t> next_warning_ = 0;
};

}  // namespace calibd::server

#endif  // CALIBD_SERVER_NET_RELAY_STATISTICS_H_
