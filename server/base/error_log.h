#ifndef CALIBD_SERVER_BASE_ERROR_LOG_H_
#define CALIBD_SERVER_BASE_ERROR_LOG_H_

#include <chrono>
#include <cstddef>
#include <mutex>
#include <set>
#include <string>
#include <utility>

namespace calibd::server {

// Logs errors of one kind that may occur for every call or every row. Each message is logged once
// per interval, and at most kMostLines different messages; after that only the number of further
// errors is logged, each time it has doubled. Thread-safe.
class ErrorLog {
 public:
  static constexpr std::size_t kMostLines = 20;
  using Clock = std::chrono::steady_clock;

  // kind: a plural such as "failed calls". Without an interval a message is logged once.
  explicit ErrorLog(std::string kind, Clock::duration interval = Clock::duration::max())
      : kind_(std::move(kind)), interval_(interval) {}

  void Log(const std::string& message);

 private:
  const std::string kind_;
  const Clock::duration interval_;
  std::mutex mutex_;
  Clock::time_point begin_{};     // guarded by mutex_; start of the interval
  std::set<std::string> logged_;  // guarded by mutex_; messages of the interval
  std::size_t more_ = 0;          // guarded by mutex_; errors not logged in the interval
};

}  // namespace calibd::server

#endif  // CALIBD_SERVER_BASE_ERROR_LOG_H_
