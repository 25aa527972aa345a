#ifndef CALIBD_SERVER_OBSERVABILITY_RPC_STATISTICS_H_
#define CALIBD_SERVER_OBSERVABILITY_RPC_STATISTICS_H_

#include <array>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <map>
#include <mutex>
#include <string>
#include <vector>

#include "absl/status/status.h"

namespace calibd::server {

// How many calls of each method ended with which code, and how long they took,
// failures included. Thread-safe.
class RpcStatistics {
 public:
  // Upper bounds in seconds, inclusive; the last bucket is unbounded.
  static constexpr std::array<double, 14> kBuckets{0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1,
                                                   0.25,  0.5,    1,     2.5,  5,     30,   300};
  // Codes are 0..16.
  static constexpr std::size_t kCodes = 17;

  struct Method {
    // "calibd.v1.ModelService".
    std::string service;
    std::string method;
    // "unary", "server_stream" or "bidi_stream".
    std::string type;
    std::int64_t started = 0;
    std::array<std::int64_t, kCodes> handled{};
    // Not cumulative; one more than kBuckets.
    std::array<std::int64_t, kBuckets.size() + 1> buckets{};
    double seconds = 0;
  };

  // path: "/calibd.v1.ModelService/GetModel", of a method that the server has.
  void Started(const std::string& path, const std::string& type);
  void Handled(const std::string& path, absl::StatusCode code, std::chrono::nanoseconds duration);

  [[nodiscard]] std::vector<Method> Snapshot() const;

 private:
  mutable std::mutex mutex_;
  std::map<std::string, Method> methods_;  // guarded by mutex_
};

}  // namespace calibd::server

#endif  // CALIBD_SERVER_OBSERVABILITY_RPC_STATISTICS_H_
