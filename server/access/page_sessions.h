#ifndef CALIBD_SERVER_ACCESS_PAGE_SESSIONS_H_
#define CALIBD_SERVER_ACCESS_PAGE_SESSIONS_H_

#include <chrono>
#include <cstddef>
#include <map>
#include <mutex>
#include <optional>
#include <string>
#include <string_view>

#include "server/access/policy.h"

namespace calibd::server {

// The logins of the page, in memory: a restart ends them. A browser keeps the id of its session,
// and not the token, which would last longer. Thread-safe.
class PageSessions {
 public:
  using Clock = std::chrono::steady_clock;
  static constexpr std::chrono::hours kDuration{12};
  // Sessions of one token. A further one ends the oldest.
  static constexpr std::size_t kMostOfToken = 100;

  struct Begun {
    // 256 random bits in hexadecimal form.
    std::string id;
    // Whether the oldest session of the token had to end.
    bool ended_another = false;
  };
  // principal: the name of the one that has the token.
  [[nodiscard]] Begun Begin(const TokenHash& token, std::string principal, Clock::time_point now);
  // Who began a session.
  struct Owner {
    TokenHash token{};
    std::string principal;
  };
  // id: the hash of the session's id. Returns nothing if it does not exist or has ended.
  [[nodiscard]] std::optional<Owner> Find(const TokenHash& id, Clock::time_point now) const;
  // Returns false if there is no such session.
  bool End(std::string_view id);
  // Removes the sessions that have ended by now. Returns whether there were any.
  bool EraseEnded(Clock::time_point now);

 private:
  struct Session {
    Owner owner;
    Clock::time_point end;
  };

  mutable std::mutex mutex_;
  // By the hash of the id; guarded by mutex_.
  std::map<TokenHash, Session> sessions_;
};

}  // namespace calibd::server

#endif  // CALIBD_SERVER_ACCESS_PAGE_SESSIONS_H_
