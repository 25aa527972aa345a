#ifndef CALIBD_SERVER_HTTP_HTTP_HOSTS_H_
#define CALIBD_SERVER_HTTP_HTTP_HOSTS_H_

#include <string>
#include <string_view>
#include <vector>

#include "absl/status/statusor.h"

namespace calibd::server {

// Checks the Host header. With DNS rebinding, a web page makes its own name resolve to this
// server's address, so that its scripts can read the server's responses. Such requests have the
// name of the page as Host, which cannot be an IP address or localhost.

// Returns the names of a comma-separated list in lower case. Errors: InvalidArgument naming the
// part that is not a host name.
[[nodiscard]] absl::StatusOr<std::vector<std::string>> ParseHttpHosts(std::string_view list);

// True if `host`, the value of a Host header, is an IP address, localhost or one of `names`, with
// or without a port. The names are in lower case.
[[nodiscard]] bool IsAllowedHost(std::string_view host, const std::vector<std::string>& names);

}  // namespace calibd::server

#endif  // CALIBD_SERVER_HTTP_HTTP_HOSTS_H_
