#include "server/store/postgres/session.h"

#include <spdlog/spdlog.h>

#include <algorithm>
#include <chrono>
#include <thread>

#include "calibd/core/status_macros.h"

namespace calibd::server {
namespace {

// The longest wait for an answer. It doubles with each attempt: an abandoned attempt whose commit
// waits for a standby keeps its process of the server.
constexpr std::chrono::seconds kAnswerTime{30};
constexpr int kMostDoublings = 4;
constexpr std::chrono::milliseconds kShortestPause{20};
constexpr std::chrono::milliseconds kLongestPause{500};
constexpr std::chrono::seconds kReportInterval{10};

}  // namespace

absl::Status PgSession::RunOnce(const Attempt& attempt, int attempts) {
  if (connection_ == nullptr) {
    CALIBD_ASSIGN_OR_RETURN(connection_, PgConnection::Open(text_));
    connection_->StopWaitingAt(stops_waiting_);
    CALIBD_RETURN_IF_ERROR(check_(*connection_));
  }
  return attempt(*connection_, std::chrono::steady_clock::now() +
                                   kAnswerTime * (1 << std::min(attempts, kMostDoublings)));
}

absl::Status PgSession::Run(const Attempt& attempt) {
  std::chrono::milliseconds pause = kShortestPause;
  const auto begin = std::chrono::steady_clock::now();
  auto report_at = begin;
  for (int attempts = 0;; ++attempts) {
    absl::Status status = RunOnce(attempt, attempts);
    if (!absl::IsUnavailable(status)) {
      if (attempts > 0 && status.ok()) {
        spdlog::info(
            "the store goes on after {:.1f} s",
            std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count());
      }
      return status;
    }
    connection_.reset();
    if (stops_waiting_) return status;
    if (const auto now = std::chrono::steady_clock::now(); now >= report_at) {
      report_at = now + kReportInterval;
      spdlog::warn("the store waits: {}", std::string(status.message()));
    }
    // The first attempt fails when the server has closed an idle connection.
    if (attempts > 0) {
      std::this_thread::sleep_for(pause);
      pause = std::min(2 * pause, kLongestPause);
    }
  }
}

}  // namespace calibd::server
