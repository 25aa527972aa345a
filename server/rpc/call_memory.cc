#include "server/rpc/call_memory.h"

#include <algorithm>
#include <chrono>

#include "absl/strings/str_cat.h"
#include "server/errors.h"

namespace calibd::server {
namespace {

constexpr std::size_t kConnections = 8;
constexpr std::chrono::seconds kMemoryRetryDelay{1};

absl::Status ExhaustedError(const char* whose, std::size_t reserved, std::size_t limit,
                            std::size_t bytes) {
  return WithRetryDelay(
      MakeError(absl::StatusCode::kResourceExhausted, "CALL_MEMORY_EXHAUSTED",
                absl::StrCat("the messages of ", whose, " occupy ", reserved, " of ", limit,
                             " bytes (calibd --call-memory-bytes), the response needs ", bytes,
                             "; read the responses and try again")),
      kMemoryRetryDelay);
}

}  // namespace

absl::Status CallMemory::Reserve(const std::string& connection, std::size_t bytes) {
  const std::lock_guard lock(mutex_);
  std::size_t& reserved = reserved_[connection];
  const std::size_t share = std::max(budget_.limit() / kConnections, 2 * bytes);
  const bool shared = bytes <= share - std::min(share, reserved);
  if (shared && budget_.TryReserve(bytes)) {
    reserved += bytes;
    return absl::OkStatus();
  }
  const std::size_t of_connection = reserved;
  if (reserved == 0) {
    reserved_.erase(connection);
  }
  return shared ? ExhaustedError("all calls", budget_.reserved(), budget_.limit(), bytes)
                : ExhaustedError("this connection", of_connection, share, bytes);
}

void CallMemory::Release(const std::string& connection, std::size_t bytes) noexcept {
  if (bytes == 0) {
    return;
  }
  const std::lock_guard lock(mutex_);
  const auto found = reserved_.find(connection);
  found->second -= bytes;
  if (found->second == 0) {
    reserved_.erase(found);
  }
  budget_.Release(bytes);
}

absl::Status CallReservation::Add(std::size_t bytes) {
  absl::Status status = memory_.Reserve(connection_, bytes);
  if (status.ok()) {
    bytes_ += bytes;
  }
  return status;
}

void CallReservation::Release(std::size_t bytes) noexcept {
  memory_.Release(connection_, bytes);
  bytes_ -= bytes;
}

std::size_t ResponseMemory(const google::protobuf::Message& response) {
  return response.SpaceUsedLong() + response.ByteSizeLong();
}

}  // namespace calibd::server
