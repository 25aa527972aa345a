#ifndef CALIBD_CLIENT_SRC_TLS_H_
#define CALIBD_CLIENT_SRC_TLS_H_

#include <memory>
#include <string>
#include <string_view>

#include "absl/status/status.h"
#include "calibd/client/tls.h"
#include "grpcpp/channel.h"
#include "token_interceptor.h"

namespace calibd::client {

// Checks the options of a connection. Errors: InvalidArgument naming the file that is missing or is
// not PEM, or saying that the token would be sent in plain text to another machine.
[[nodiscard]] absl::Status CheckConnection(const std::string& address, const TlsOptions& tls,
                                           const TokenSource& token);

// Whether this is a target of gRPC that may name several servers. Calls then go to one whose health
// service says SERVING: the owner of a shared store, and not a standby.
[[nodiscard]] bool NamesSeveral(const std::string& address);

// A channel with the settings of all channels. Requires CheckConnection. Files of TLS that cannot
// be read make a channel that cannot connect. token: see TokenSourceOr.
[[nodiscard]] std::shared_ptr<grpc::Channel> CreateChannel(const std::string& address,
                                                           const TlsOptions& tls,
                                                           TokenSource token);

// Explains in a sentence why a connection fails, and what to do; empty if TLS is not the cause.
// message: that of gRPC.
[[nodiscard]] std::string ExplainTls(std::string_view message, const TlsOptions& tls);

}  // namespace calibd::client

#endif  // CALIBD_CLIENT_SRC_TLS_H_
