#ifndef CALIBD_CLIENT_SRC_CHANNEL_SETTINGS_H_
#define CALIBD_CLIENT_SRC_CHANNEL_SETTINGS_H_

#include <chrono>
#include <memory>
#include <string>
#include <utility>

#include "grpcpp/create_channel.h"
#include "grpcpp/security/credentials.h"
#include "grpcpp/support/channel_arguments.h"
#include "token_interceptor.h"

namespace calibd::client {

// A peer that disappears silently is noticed after this time and another 20 s. Servers may close
// connections that ping more often than every 30 s.
inline constexpr std::chrono::seconds kKeepalive{60};

// Settings of a channel to calibd.
[[nodiscard]] inline grpc::ChannelArguments ChannelSettings(
    std::chrono::milliseconds keepalive = kKeepalive) {
  // A declaration was sent in one request, of at most 1 MiB by default; a page of declarations fits
  // into one response.
  constexpr int kMaxAnswerBytes = 32 << 20;
  grpc::ChannelArguments arguments;
  arguments.SetMaxReceiveMessageSize(kMaxAnswerBytes);
  // This library does the retries, because it knows what is safe to repeat.
  arguments.SetInt(GRPC_ARG_ENABLE_RETRIES, 0);
  // A proxy for web traffic must not forward predictions.
  arguments.SetInt(GRPC_ARG_ENABLE_HTTP_PROXY, 0);
  arguments.SetInt(GRPC_ARG_KEEPALIVE_TIME_MS, static_cast<int>(keepalive.count()));
  arguments.SetInt(GRPC_ARG_KEEPALIVE_TIMEOUT_MS, 20000);
  // Pings continue while a watch of an unchanging model is idle.
  arguments.SetInt(GRPC_ARG_HTTP2_MAX_PINGS_WITHOUT_DATA, 0);
  // Backoff determines the delays between attempts; those of the channel stay below them.
  arguments.SetInt(GRPC_ARG_INITIAL_RECONNECT_BACKOFF_MS, 100);
  arguments.SetInt(GRPC_ARG_MIN_RECONNECT_BACKOFF_MS, 1000);
  arguments.SetInt(GRPC_ARG_MAX_RECONNECT_BACKOFF_MS, 2000);
  // A failure of another client in the process must not delay this one.
  arguments.SetInt(GRPC_ARG_USE_LOCAL_SUBCHANNEL_POOL, 1);
  return arguments;
}

// token: see TokenSourceOr.
[[nodiscard]] inline std::shared_ptr<grpc::Channel> CreateChannel(const std::string& address,
                                                                  TokenSource token = nullptr) {
  return grpc::experimental::CreateCustomChannelWithInterceptors(
      address, grpc::InsecureChannelCredentials(), ChannelSettings(),
      TokenInterceptors(TokenSourceOr(std::move(token))));
}

}  // namespace calibd::client

#endif  // CALIBD_CLIENT_SRC_CHANNEL_SETTINGS_H_
