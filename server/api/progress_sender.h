#ifndef CALIBD_SERVER_API_PROGRESS_SENDER_H_
#define CALIBD_SERVER_API_PROGRESS_SENDER_H_

#include <chrono>
#include <utility>

#include "server/api/call.h"

namespace calibd::server {

// Sends how far a computation is, at most ten times a second; leaves out what the client is too
// slow for. Response: a message with a `progress` field. Called by one thread at a time.
template <typename Response>
class ProgressSender {
 public:
  explicit ProgressSender(Reply<Response> stream) : stream_(std::move(stream)) {}

  void operator()(double fraction) {
    stream_->Guard(Stage::kProgress, [this, fraction] {
      const auto now = std::chrono::steady_clock::now();
      if (now >= next_) {
        next_ = now + kInterval;
        Response response;
        response.mutable_progress()->set_fraction(fraction);
        stream_->Send(std::move(response));
      }
    });
  }

 private:
  static constexpr std::chrono::milliseconds kInterval{100};

  Reply<Response> stream_;
  std::chrono::steady_clock::time_point next_;
};

}  // namespace calibd::server

#endif  // CALIBD_SERVER_API_PROGRESS_SENDER_H_
