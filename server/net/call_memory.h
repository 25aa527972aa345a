#ifndef CALIBD_SERVER_NET_CALL_MEMORY_H_
#define CALIBD_SERVER_NET_CALL_MEMORY_H_

#include <google/protobuf/message.h>

#include <cstddef>
#include <mutex>
#include <string>
#include <unordered_map>
#include <utility>

#include "absl/status/status.h"
#include "server/net/byte_budget.h"

namespace calibd::server {

// Returns the address by which a caller is counted, see PeerAddress. caller: peer() of a gRPC
// context, or the client's address with its port. A caller without an address counts by its name.
[[nodiscard]] std::string CallerAddress(const std::string& caller);

// Reserves the memory of responses, and of requests that wait, in the budget of all calls. One
// connection gets at most an eighth of the budget and one address a quarter, but always enough for
// two of their messages: a client that does not read runs out before others do. Thread-safe.
class CallMemory {
 public:
  // budget: must outlive this object.
  explicit CallMemory(ByteBudget& budget) : budget_(budget) {}
  CallMemory(const CallMemory&) = delete;
  CallMemory& operator=(const CallMemory&) = delete;

  // The owner of reserved memory.
  struct Owner {
    // peer: names the connection: peer() of a gRPC context, or the client's address with its port.
    explicit Owner(std::string peer);

    const std::string connection;
    const std::string address;
  };

  // Errors: ResourceExhausted (CALL_MEMORY_EXHAUSTED), with a RetryInfo unless the bytes exceed the
  // whole budget; then nothing is reserved.
  [[nodiscard]] absl::Status Reserve(const Owner& owner, std::size_t bytes);
  // bytes: at most the bytes that the owner has reserved.
  void Release(const Owner& owner, std::size_t bytes) noexcept;

 private:
  // Contains only owners with reserved bytes.
  using Reserved = std::unordered_map<std::string, std::size_t>;

  ByteBudget& budget_;
  std::mutex mutex_;
  Reserved connections_;  // guarded by mutex_
  Reserved addresses_;    // guarded by mutex_
};

// The memory reserved for one call. The destructor releases it. Not thread-safe.
class CallReservation {
 public:
  // peer: the name of the connection; see CallMemory::Owner.
  CallReservation(CallMemory& memory, std::string peer)
      : memory_(memory), owner_(std::move(peer)) {}
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
  const CallMemory::Owner owner_;
  std::size_t bytes_ = 0;
};

// Bytes that a response occupies while gRPC holds it: the message, its serialized form, and its
// call.
[[nodiscard]] std::size_t ResponseMemory(const google::protobuf::Message& response);

// Frees the memory of a request that was read. gRPC keeps the object until the call is done, which
// is when the client has taken the response, however long that takes.
template <typename Request>
void FreeRequest(const Request& request) {
  // gRPC created the object, and nobody reads it again.
  Request().Swap(const_cast<Request*>(&request));
}

}  // namespace calibd::server

#endif  // CALIBD_SERVER_NET_CALL_MEMORY_H_
