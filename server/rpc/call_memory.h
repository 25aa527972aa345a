#ifndef CALIBD_SERVER_RPC_CALL_MEMORY_H_
#define CALIBD_SERVER_RPC_CALL_MEMORY_H_

#include <google/protobuf/message.h>

#include <cstddef>
#include <mutex>
#include <string>
#include <unordered_map>
#include <utility>

#include "absl/status/status.h"
#include "server/net/byte_budget.h"

namespace calibd::server {

// Reserves the memory of responses in the budget of all calls. One connection gets at most an
// eighth of the budget, but always enough for two of its responses: a client that does not read
// runs out before others do. Thread-safe.
class CallMemory {
 public:
  // budget: must live longer than this.
  explicit CallMemory(ByteBudget& budget) : budget_(budget) {}
  CallMemory(const CallMemory&) = delete;
  CallMemory& operator=(const CallMemory&) = delete;

  // connection: the peer of the call's context, which names the connection.
  // Errors: ResourceExhausted (CALL_MEMORY_EXHAUSTED) with a RetryInfo; nothing is reserved then.
  [[nodiscard]] absl::Status Reserve(const std::string& connection, std::size_t bytes);
  // bytes: at most what the connection has reserved.
  void Release(const std::string& connection, std::size_t bytes) noexcept;

 private:
  ByteBudget& budget_;
  std::mutex mutex_;
  // Only connections that have something reserved. Guarded by mutex_.
  std::unordered_map<std::string, std::size_t> reserved_;
};

// What one call has reserved; released at the latest when this is destroyed. Not thread-safe.
class CallReservation {
 public:
  CallReservation(CallMemory& memory, std::string connection)
      : memory_(memory), connection_(std::move(connection)) {}
  ~CallReservation() { Release(bytes_); }
  CallReservation(const CallReservation&) = delete;
  CallReservation& operator=(const CallReservation&) = delete;

  // Errors: those of CallMemory.
  [[nodiscard]] absl::Status Add(std::size_t bytes);
  // bytes: at most bytes().
  void Release(std::size_t bytes) noexcept;

  [[nodiscard]] std::size_t bytes() const noexcept { return bytes_; }

 private:
  CallMemory& memory_;
  const std::string connection_;
  std::size_t bytes_ = 0;
};

// What a response occupies while gRPC has it: itself and its serialized form.
[[nodiscard]] std::size_t ResponseMemory(const google::protobuf::Message& response);

// Frees the memory of a request that was read. gRPC keeps the object until the call is done,
// which is when the client has taken the answer, however long that takes.
template <typename Request>
void FreeRequest(const Request& request) {
  // gRPC made it and nobody reads it again.
  Request().Swap(const_cast<Request*>(&request));
}

}  // namespace calibd::server

#endif  // CALIBD_SERVER_RPC_CALL_MEMORY_H_
