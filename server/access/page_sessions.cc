#include "server/access/page_sessions.h"

#include <openssl/rand.h>

#include <array>
#include <new>
#include <utility>

#include "absl/strings/escaping.h"

namespace calibd::server {

PageSessions::Begun PageSessions::Begin(const TokenHash& token, std::string principal,
                                        Clock::time_point now) {
  std::array<unsigned char, 32> bits{};
  if (RAND_bytes(bits.data(), static_cast<int>(bits.size())) != 1) throw std::bad_alloc();
  std::string id = absl::BytesToHexString(
      absl::string_view(reinterpret_cast<const char*>(bits.data()), bits.size()));
  const std::lock_guard lock(mutex_);
  std::size_t count = 0;
  auto oldest = sessions_.end();
  for (auto entry = sessions_.begin(); entry != sessions_.end(); ++entry) {
    if (entry->second.owner.token != token) continue;
    ++count;
    if (oldest == sessions_.end() || entry->second.end < oldest->second.end) oldest = entry;
  }
  const bool ends_another = count >= kMostOfToken;
  if (ends_another) sessions_.erase(oldest);
  sessions_[HashToken(id)] = {.owner = {.token = token, .principal = std::move(principal)},
                              .end = now + kDuration};
  return {.id = std::move(id), .ended_another = ends_another};
}

std::optional<PageSessions::Owner> PageSessions::Find(const TokenHash& id,
                                                      Clock::time_point now) const {
  const std::lock_guard lock(mutex_);
  const auto found = sessions_.find(id);
  if (found == sessions_.end() || found->second.end <= now) return std::nullopt;
  return found->second.owner;
}

bool PageSessions::End(std::string_view id) {
  const TokenHash hash = HashToken(id);
  const std::lock_guard lock(mutex_);
  return sessions_.erase(hash) > 0;
}

bool PageSessions::EraseEnded(Clock::time_point now) {
  const std::lock_guard lock(mutex_);
  return std::erase_if(sessions_, [now](const auto& entry) { return entry.second.end <= now; }) > 0;
}

}  // namespace calibd::server
