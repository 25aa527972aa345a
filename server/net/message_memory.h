#ifndef CALIBD_SERVER_NET_MESSAGE_MEMORY_H_
#define CALIBD_SERVER_NET_MESSAGE_MEMORY_H_

#include <algorithm>
#include <cstddef>
#include <memory>
#include <utility>

#include "server/net/byte_budget.h"
#include "server/net/peer_limits.h"

namespace calibd::server {

// The memory that the requests of one connection occupy. The destructor releases it.
class MessageMemory {
 public:
  // share: the maximum for this connection.
  MessageMemory(ByteBudget& memory, std::shared_ptr<PeerLimits> peer, std::size_t share)
      : memory_(memory), peer_(std::move(peer)), share_(share) {}
  ~MessageMemory() { Release(reserved_); }
  MessageMemory(const MessageMemory&) = delete;
  MessageMemory& operator=(const MessageMemory&) = delete;

  // Returns false, and reserves nothing, if this would exceed the share of the connection, the
  // share of its peer, or the memory for all messages.
  [[nodiscard]] bool TryReserve(std::size_t bytes) {
    if (bytes > share_ - std::min(share_, reserved_) || !peer_->messages().TryReserve(bytes)) {
      return false;
    }
    if (!memory_.TryReserve(bytes)) {
      peer_->messages().Release(bytes);
      return false;
    }
    reserved_ += bytes;
    return true;
  }
  // bytes: at most the reserved ones.
  void Release(std::size_t bytes) {
    memory_.Release(bytes);
    peer_->messages().Release(bytes);
    reserved_ -= bytes;
  }

 private:
  ByteBudget& memory_;
  const std::shared_ptr<PeerLimits> peer_;
  const std::size_t share_;
  std::size_t reserved_ = 0;
};

}  // namespace calibd::server

#endif  // CALIBD_SERVER_NET_MESSAGE_MEMORY_H_
