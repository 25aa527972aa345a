#ifndef CALIBD_SERVER_OBSERVABILITY_HTTP_STATISTICS_H_
#define CALIBD_SERVER_OBSERVABILITY_HTTP_STATISTICS_H_

#include <array>
#include <chrono>
#include <cstdint>
#include <map>
#include <mutex>
#include <string>
#include <tuple>
#include <vector>

#include "server/observability/rpc_statistics.h"

namespace calibd::server {

// A kind of HTTP request. Its texts are constants of the server, never parts of a request, so that
// the kinds are few.
struct HttpRoute {
  // "GET", "HEAD", "POST" or "other".
  std::string method = "other";
  // A path such as "/v1/models/{model}/history"; "other" for unknown paths and malformed requests.
  std::string path = "other";

  friend bool operator<(const HttpRoute& a, const HttpRoute& b) {
    return std::tie(a.path, a.method) < std::tie(b.path, b.method);
  }
};

// Counts the HTTP requests of each route by status and duration. Thread-safe.
class HttpStatistics {
 public:
  // The status of a request whose client disconnected, or was too slow, before its response began.
  static constexpr unsigned kClientGone = 499;

  struct Requests {
    // Number of answered requests by status.
    std::map<unsigned, std::int64_t> handled{};
    // Not cumulative; see RpcStatistics::kBuckets.
    std::array<std::int64_t, RpcStatistics::kBuckets.size() + 1> buckets{};
    double seconds = 0;
  };

  // Does not count a request if there is no memory for a new route.
  void Handled(const HttpRoute& route, unsigned status, std::chrono::nanoseconds duration) noexcept;

  // Returns the routes that were requested.
  [[nodiscard]] std::map<HttpRoute, Requests> Snapshot() const;

 private:
  mutable std::mutex mutex_;
  std::map<HttpRoute, Requests> requests_;  // guarded by mutex_
};

}  // namespace calibd::server

#endif  // CALIBD_SERVER_OBSERVABILITY_HTTP_STATISTICS_H_
