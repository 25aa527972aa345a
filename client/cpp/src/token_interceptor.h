#ifndef CALIBD_CLIENT_SRC_TOKEN_INTERCEPTOR_H_
#define CALIBD_CLIENT_SRC_TOKEN_INTERCEPTOR_H_

#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "grpcpp/support/client_interceptor.h"

namespace calibd::client {

// Returns the token of a call; empty for none. Called for each call, on any thread.
using TokenSource = std::function<std::string()>;

// The source, or without one the file that the environment variable CALIBD_TOKEN_FILE names, which
// is read for each call. Empty if there is neither.
[[nodiscard]] TokenSource TokenSourceOr(TokenSource source);

// Interceptors of a channel that add the token to each of its calls.
[[nodiscard]] std::vector<std::unique_ptr<grpc::experimental::ClientInterceptorFactoryInterface>>
TokenInterceptors(TokenSource source);

}  // namespace calibd::client

#endif  // CALIBD_CLIENT_SRC_TOKEN_INTERCEPTOR_H_
