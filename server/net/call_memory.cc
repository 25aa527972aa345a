#include "server/net/call_memory.h"

#include <algorithm>
#include <chrono>
#include <optional>

#include "absl/strings/str_cat.h"
#include "server/base/errors.h"
#include "server/base/listen_address.h"
#include "server/net/listener.h"
#include "server/net/peer_name.h"

namespace calibd::server {
namespace {

// Each connection may use one part in kConnectionPart of the budget, and each address one part in
// kAddressPart.
constexpr std::size_t kConnectionPart = 8;
constexpr std::size_t kAddressPart = 4;
constexpr std::chrono::seconds kMemoryRetryDelay{1};
// Bytes that gRPC keeps for an unread call in addition to its messages: the arena of the call, its
// metadata and its queue entries.
constexpr std::size_t kCallOverhead = std::size_t{8} << 10;

bool HasRoom(const std::unordered_map<std::string, std::size_t>& reserved, const std::string& key,
             std::size_t bytes, std::size_t share) {
  const auto found = reserved.find(key);
  const std::size_t taken = found == reserved.end() ? 0 : found->second;
  const std::size_t limit = std::max(share, 2 * bytes);
  return taken <= limit && bytes <= limit - taken;
}

void Subtract(std::unordered_map<std::string, std::size_t>& reserved, const std::string& key,
              std::size_t bytes) noexcept {
  const auto found = reserved.find(key);
  found->second -= bytes;
  if (found->second == 0) reserved.erase(found);
}

absl::Status ExhaustedError(const char* whose, std::size_t limit, std::size_t bytes) {
  if (bytes > limit) {
    return MakeError(
        absl::StatusCode::kResourceExhausted, "CALL_MEMORY_EXHAUSTED",
        absl::StrCat("this message needs ", bytes, " bytes of the memory of calls, which has ",
                     limit, " (calibd --call-memory-bytes); send smaller batches"));
  }
  return WithRetryDelay(
      MakeError(
          absl::StatusCode::kResourceExhausted, "CALL_MEMORY_EXHAUSTED",
          absl::StrCat("messages of ", whose, " occupy the memory of calls (calibd ",
                       "--call-memory-bytes ", limit, "), and one more needs ", bytes,
                       " bytes; read the responses, send smaller batches, or try again later")),
      kMemoryRetryDelay);
}

}  // namespace

std::string CallerAddress(const std::string& caller) {
  const std::string name = ParsePeerName(caller).value_or(caller);
  const auto endpoint = ParseListenAddress(name);
  return endpoint.ok() ? PeerAddress(endpoint->address()) : name;
}

CallMemory::Owner::Owner(std::string peer)
    : connection(std::move(peer)), address(CallerAddress(connection)) {}

absl::Status CallMemory::Reserve(const Owner& owner, std::size_t bytes) {
  const std::size_t limit = budget_.limit();
  const std::lock_guard lock(mutex_);
  if (!HasRoom(connections_, owner.connection, bytes, limit / kConnectionPart)) {
    return ExhaustedError("this connection", limit, bytes);
  }
  if (!HasRoom(addresses_, owner.address, bytes, limit / kAddressPart)) {
    return ExhaustedError("this address", limit, bytes);
  }
  // These lines may throw, so they precede the reservation in the budget.
  std::size_t& of_connection = connections_[owner.connection];
  std::size_t& of_address = addresses_[owner.address];
  if (!budget_.TryReserve(bytes)) {
    Subtract(connections_, owner.connection, 0);
    Subtract(addresses_, owner.address, 0);
    return ExhaustedError("all clients", limit, bytes);
  }
  of_connection += bytes;
  of_address += bytes;
  return absl::OkStatus();
}

void CallMemory::Release(const Owner& owner, std::size_t bytes) noexcept {
  if (bytes == 0) return;
  const std::lock_guard lock(mutex_);
  Subtract(connections_, owner.connection, bytes);
  Subtract(addresses_, owner.address, bytes);
  budget_.Release(bytes);
}

absl::Status CallReservation::Add(std::size_t bytes) {
  absl::Status status = memory_.Reserve(owner_, bytes);
  if (status.ok()) bytes_ += bytes;
  return status;
}

void CallReservation::Release(std::size_t bytes) noexcept {
  memory_.Release(owner_, bytes);
  bytes_ -= bytes;
}

std::size_t ResponseMemory(const google::protobuf::Message& response) {
  return kCallOverhead + response.SpaceUsedLong() + response.ByteSizeLong();
}

}  // namespace calibd::server
