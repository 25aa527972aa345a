#include "server/base/error_log.h"

#include <spdlog/spdlog.h>

#include <bit>

namespace calibd::server {

void ErrorLog::Log(const std::string& message) {
  const std::lock_guard lock(mutex_);
  const auto now = Clock::now();
  if (now - begin_ >= interval_) {
    begin_ = now;
    logged_.clear();
    more_ = 0;
  }
  if (logged_.contains(message)) return;
  if (logged_.size() < kMostLines) {
    logged_.insert(message);
    spdlog::error("{}", message);
    return;
  }
  ++more_;
  if (std::has_single_bit(more_)) {
    spdlog::error("further {} that are not logged individually: {}", kind_, more_);
  }
}

}  // namespace calibd::server
