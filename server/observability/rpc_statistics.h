#ifndef CALIBD_SERVER_OBSERVABILITY_RPC_STATISTICS_H_
#define CALIBD_SERVER_OBSERVABILITY_RPC_STATISTICS_H_

#include <array>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <map>
#include <mutex>
#include <string>
#include <string_view>
#include <vector>

#include "absl/status/status.h"

namespace calibd::server {

// A method that the server has registered.
struct RpcMethod {
  // "calibd.v1.ModelService".
  std::string service;
  std::string method;
  // "unary", "client_stream", "server_stream" or "bidi_stream".
  std::string type;
};

// Counts the calls of each method by status code and duration, failures included. The methods are
// fixed at construction. Calls of unregistered methods, whose names clients invent, are counted
// together. Thread-safe.
class RpcStatistics {
 public:
  // Upper bounds in seconds, inclusive; the last bucket is unbounded.
  static constexpr std::array<double, 14> kBuckets{0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1,
                                                   0.25,  0.5,    1,     2.5,  5,     30,   300};
  // Status codes are 0..16.
  static constexpr std::size_t kCodes = 17;

  struct Calls {
    // For unregistered methods, all names are "unknown".
    RpcMethod method;
    std::int64_t started = 0;
    std::array<std::int64_t, kCodes> handled{};
    // Not cumulative; the last bucket, after kBuckets, is unbounded.
    std::array<std::int64_t, kBuckets.size() + 1> buckets{};
    double seconds = 0;
  };

  explicit RpcStatistics(const std::vector<RpcMethod>& methods);

  // Returns the number of the method with this path, such as "/calibd.v1.ModelService/GetModel".
  // The path may contain any bytes: an unregistered path gets the number of the unknown method.
  [[nodiscard]] std::size_t Find(std::string_view path) const noexcept;

  // method: the result of Find, here and below.
  [[nodiscard]] bool IsRegistered(std::size_t method) const noexcept;
  void Started(std::size_t method) noexcept;
  void Handled(std::size_t method, absl::StatusCode code,
               std::chrono::nanoseconds duration) noexcept;

  // Returns the methods that were called.
  [[nodiscard]] std::vector<Calls> Snapshot() const;

 private:
  std::map<std::string, std::size_t, std::less<>> numbers_;  // constant after construction
  mutable std::mutex mutex_;
  std::vector<Calls> calls_;  // guarded by mutex_; the last one is the unknown method
};

}  // namespace calibd::server

#endif  // CALIBD_SERVER_OBSERVABILITY_RPC_STATISTICS_H_
