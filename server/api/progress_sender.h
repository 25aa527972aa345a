#ifndef CALIBD_SERVER_API_PROGRESS_SENDER_H_
#define CALIBD_SERVER_API_PROGRESS_SENDER_H_

#include <chrono>
#include <functional>
#include <utility>

#include "server/api/call.h"

namespace calibd::server {

// Sends the fraction of a computation that is done, at most ten times a second; leaves out messages
// that the client is too slow for. Response: a message with a `progress` field. The function is
// called by one thread at a time.
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
