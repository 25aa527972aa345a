#include "server/observability/rpc_statistics.h"

#include <algorithm>

namespace calibd::server {

void RpcStatistics::Started(const std::string& path, const std::string& type) {
  const std::lock_guard lock(mutex_);
  Method& method = methods_[path];
  if (method.started++ == 0) {
    const std::size_t slash = path.rfind('/');
    method.service = path.substr(1, slash - 1);
    method.method = path.substr(slash + 1);
    method.type = type;
  }
}

void RpcStatistics::Handled(const std::string& path, absl::StatusCode code,
                            std::chrono::nanoseconds duration) {
  const double seconds = std::chrono::duration<double>(duration).count();
  const auto bucket = static_cast<std::size_t>(
      std::lower_bound(kBuckets.begin(), kBuckets.end(), seconds) - kBuckets.begin());
  const std::lock_guard lock(mutex_);
  Method& method = methods_[path];
  ++method.handled[std::min(static_cast<std::size_t>(code), kCodes - 1)];
  ++method.buckets[bucket];
  method.seconds += seconds;
}

std::vector<RpcStatistics::Method> RpcStatistics::Snapshot() const {
  const std::lock_guard lock(mutex_);
  std::vector<Method> methods;
  methods.reserve(methods_.size());
  for (const auto& [path, method] : methods_) {
    methods.push_back(method);
  }
  return methods;
}

}  // namespace calibd::server
