#include "server/rpc/grpc_log.h"

#include <grpc/support/log.h>
#include <spdlog/spdlog.h>

#include <chrono>
#include <cstdint>
#include <mutex>
#include <string_view>
#include <utility>

namespace calibd::server {
namespace {

constexpr std::chrono::seconds kPause{10};
constexpr std::size_t kMaxBytes = 200;

// Decides which lines are written.
class Throttle {
 public:
  // Returns the number of lines that were left out since the last one, or -1 to leave out this one.
  std::int64_t Take() {
    const std::lock_guard lock(mutex_);
    const auto now = std::chrono::steady_clock::now();
    if (now < next_) {
      ++left_out_;
      return -1;
    }
    next_ = now + kPause;
    return std::exchange(left_out_, 0);
  }

 private:
  std::mutex mutex_;
  std::chrono::steady_clock::time_point next_;
  std::int64_t left_out_ = 0;
};

std::mutex& ObjectsMutex() {
  static std::mutex mutex;
  return mutex;
}
int objects = 0;

void Write(gpr_log_func_args* line) {
  // Lines for debugging must not keep errors out.
  static Throttle of_errors;
  static Throttle of_others;
  const bool is_error = line->severity == GPR_LOG_SEVERITY_ERROR;
  const auto level = is_error ? spdlog::level::warn : spdlog::level::debug;
  if (!spdlog::should_log(level)) return;
  const std::int64_t left_out = (is_error ? of_errors : of_others).Take();
  if (left_out < 0) return;
  const std::string_view text = std::string_view(line->message).substr(0, kMaxBytes);
  if (left_out == 0) {
    spdlog::log(level, "gRPC: {}", text);
  } else {
    spdlog::log(level, "gRPC: {} ({} earlier lines were left out)", text, left_out);
  }
}

void Drop(gpr_log_func_args* /*line*/) {}

}  // namespace

GrpcLog::GrpcLog() {
  const std::lock_guard lock(ObjectsMutex());
  if (++objects == 1) gpr_set_log_function(&Write);
}

GrpcLog::~GrpcLog() {
  const std::lock_guard lock(ObjectsMutex());
  if (--objects == 0) gpr_set_log_function(&Drop);
}

}  // namespace calibd::server
