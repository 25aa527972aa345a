#include "server/net/tls_server.h"

#include <spdlog/spdlog.h>

#include <algorithm>

namespace calibd::server {
namespace {

// Minimum time between two warnings, so that a flood of connections does not flood the log.
constexpr std::chrono::seconds kFailurePause{10};
constexpr std::size_t kLeastCleanup = 64;

static_assert(TlsServer::kFailures.size() ==
              static_cast<std::size_t>(TlsFailure::kTooManyKeyUpdates) + 1);

}  // namespace

std::unique_ptr<TlsSession> TlsServer::Begin(TlsProtocol protocol, const std::string& address) {
  if (!TakeHandshake(address)) {
    CountFailure(TlsFailure::kTooManyHandshakes, "the address connects too often", address);
    return nullptr;
  }
  return std::make_unique<TlsSession>(*certificates_->context(), protocol);
}

bool TlsServer::TakeHandshake(const std::string& address) {
  const std::lock_guard lock(mutex_);
  const auto now = TokenBucket::Time::clock::now();
  if (handshakes_.size() >= cleanup_size_) {
    std::erase_if(handshakes_, [now](const auto& entry) {
      TokenBucket bucket = entry.second;
      return bucket.full(now);
    });
    cleanup_size_ = std::max(kLeastCleanup, 2 * handshakes_.size());
  }
  const auto [entry, added] = handshakes_.try_emplace(address, kHandshakeRate, kHandshakeBurst);
  return entry->second.Take(now);
}

void TlsServer::CountFailure(TlsFailure failure, std::string_view explanation,
                             std::string_view peer) {
  const auto index = static_cast<std::size_t>(failure);
  ++failures_[index];
  {
    const std::lock_guard lock(mutex_);
    const auto now = TokenBucket::Time::clock::now();
    if (now < next_warning_) return;
    next_warning_ = now + kFailurePause;
  }
  spdlog::warn("a TLS connection was closed: {}, {}, peer {}", kFailures[index], explanation, peer);
}

}  // namespace calibd::server
