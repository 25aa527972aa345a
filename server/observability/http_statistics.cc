#include "server/observability/http_statistics.h"

#include <algorithm>
#include <new>

namespace calibd::server {

void HttpStatistics::Handled(const HttpRoute& route, unsigned status,
                             std::chrono::nanoseconds duration) noexcept try {
  constexpr const auto& kBounds = RpcStatistics::kBuckets;
  const double seconds = std::chrono::duration<double>(duration).count();
  const auto bucket = static_cast<std::size_t>(
      std::lower_bound(kBounds.begin(), kBounds.end(), seconds) - kBounds.begin());
  const std::lock_guard lock(mutex_);
  Requests& requests = requests_[route];
  ++requests.handled[status];
  ++requests.buckets[bucket];
  requests.seconds += seconds;
} catch (const std::bad_alloc&) {
}

std::map<HttpRoute, HttpStatistics::Requests> HttpStatistics::Snapshot() const {
  const std::lock_guard lock(mutex_);
  return requests_;
}

}  // namespace calibd::server
