#include "server/observability/rpc_statistics.h"

#include <algorithm>
#include <iterator>

namespace calibd::server {

RpcStatistics::RpcStatistics(const std::vector<RpcMethod>& methods) {
  for (const RpcMethod& method : methods) {
    numbers_.emplace("/" + method.service + "/" + method.method, calls_.size());
    calls_.push_back({.method = method});
  }
  calls_.push_back({.method = {.service = "unknown", .method = "unknown", .type = "unknown"}});
}

std::size_t RpcStatistics::Find(std::string_view path) const noexcept {
  const auto found = numbers_.find(path);
  return found == numbers_.end() ? numbers_.size() : found->second;
}

bool RpcStatistics::IsRegistered(std::size_t method) const noexcept {
  return method < numbers_.size();
}

void RpcStatistics::Started(std::size_t method) noexcept {
  const std::lock_guard lock(mutex_);
  ++calls_[method].started;
}

void RpcStatistics::Handled(std::size_t method, absl::StatusCode code,
                            std::chrono::nanoseconds duration) noexcept {
  const double seconds = std::chrono::duration<double>(duration).count();
  const auto bucket = static_cast<std::size_t>(
      std::lower_bound(kBuckets.begin(), kBuckets.end(), seconds) - kBuckets.begin());
  const std::lock_guard lock(mutex_);
  Calls& calls = calls_[method];
  ++calls.handled[std::min(static_cast<std::size_t>(code), kCodes - 1)];
  ++calls.buckets[bucket];
  calls.seconds += seconds;
}

std::vector<RpcStatistics::Calls> RpcStatistics::Snapshot() const {
  std::vector<Calls> called;
  const std::lock_guard lock(mutex_);
  std::copy_if(calls_.begin(), calls_.end(), std::back_inserter(called),
               [](const Calls& calls) { return calls.started > 0; });
  return called;
}

}  // namespace calibd::server
