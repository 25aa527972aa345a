#ifndef CALIBD_SERVER_API_PROGRESS_SENDER_H_
#define CALIBD_SERVER_API_PROGRESS_SENDER_H_

#include <chrono>
#include <functional>
#include <utility>

#include "server/api/call.h"

namespace calibd::server {

// Sends the completed fraction of a computation, at most ten times a second. Skips messages that
// the client is too slow to take. Response: a message with a `progress` field. One thread at a time
// calls the function.
template <typename Response>
std::function<void(double fraction)> ProgressSender(const Reply<Response>& reply) {
  return [reply, next = std::chrono::steady_clock::time_point()](double fraction) mutable {
    reply->Guard(Stage::kProgress, [&] {
      const auto now = std::chrono::steady_clock::now();
      if (now >= next) {
        next = now + std::chrono::milliseconds(100);
        Response response;
        response.mutable_progress()->set_fraction(fraction);
        reply->Send(std::move(response));
      }
    });
  };
}

}  // namespace calibd::server

#endif  // CALIBD_SERVER_API_PROGRESS_SENDER_H_
