#include "server/net/relay_statistics.h"

#include <spdlog/spdlog.h>

#include <chrono>

namespace calibd::server {
namespace {

using Nanoseconds = std::chrono::nanoseconds;

// Minimum time between two warnings, so that a flood of connections does not flood the log.
constexpr Nanoseconds kWarningPause = std::chrono::seconds(10);

static_assert(RelayStatistics::kCloseReasons.size() ==
              static_cast<std::size_t>(CloseReason::kDrained) + 1);
static_assert(RelayStatistics::kCallEnds.size() == static_cast<std::size_t>(CallEnd::kDrained) + 1);

bool IsAbuse(CloseReason reason) {
  return reason != CloseReason::kNoCall && reason != CloseReason::kEvicted &&
         reason != CloseReason::kDrained;
}

}  // namespace

void RelayStatistics::CountClosed(CloseReason reason, std::string_view peer) {
  const auto index = static_cast<std::size_t>(reason);
  ++closed_[index];
  if (IsAbuse(reason)) Warn("a connection was closed", kCloseReasons[index], peer);
}

void RelayStatistics::CountEnded(CallEnd reason, std::string_view peer) {
  const auto index = static_cast<std::size_t>(reason);
  ++ended_[index];
  // A shutdown is no fault of the client.
  if (reason != CallEnd::kDrained) Warn("a call was ended", kCallEnds[index], peer);
}

void RelayStatistics::Warn(const char* what, const char* reason, std::string_view peer) {
  const std::int64_t now = Nanoseconds(std::chrono::steady_clock::now().time_since_epoch()).count();
  std::int64_t next = next_warning_;
  if (now >= next && next_warning_.compare_exchange_strong(next, now + kWarningPause.count())) {
    spdlog::warn("{}: {}, peer {}", what, reason, peer);
  }
}

}  // namespace calibd::server
