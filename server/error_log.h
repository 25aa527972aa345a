#ifndef CALIBD_SERVER_ERROR_LOG_H_
#define CALIBD_SERVER_ERROR_LOG_H_

#include <chrono>
#include <cstddef>
#include <mutex>
#include <set>
#include <string>
#include <utility>

namespace calibd::server {

// Logs errors of one kind, of which there may be one for every call or every row: each message once
// in an interval, and at most kMostLines different ones. After that only how many more there were,
// whenever that number has doubled. Thread-safe.
class ErrorLog {
 public:
  static constexpr std::size_t kMostLines = 20;
  using Clock = std::chrono::steady_clock;

  // kind: in the plural, such as "failed calls". Without an interval a message is logged once.
  explicit ErrorLog(std::string kind, Clock::duration interval = Clock::duration::max())
      : kind_(std::move(kind)), interval_(interval) {}

  void Log(const std::string& message);

 private:
  const std::string kind_;
  const Clock::duration interval_;
  std::mutex mutex_;
  Clock::time_point begin_{};     // guarded by mutex_; of the interval
  std::set<std::string> logged_;  // guarded by mutex_; in the interval
  std::size_t more_ = 0;          // guarded by mutex_; not logged in the interval
};

}  // namespace calibd::server

#endif  // CALIBD_SERVER_ERROR_LOG_H_
