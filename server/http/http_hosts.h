#ifndef CALIBD_SERVER_HTTP_HTTP_HOSTS_H_
#define CALIBD_SERVER_HTTP_HTTP_HOSTS_H_

#include <string>
#include <string_view>
#include <vector>

#include "absl/status/statusor.h"

namespace calibd::server {

// Which values of the Host header are accepted. A web page can have its own name resolved to this
// server's address (DNS rebinding), and its scripts may then read what the server answers. Such
// requests have that page's name as Host. An IP address or localhost cannot be such a name.

// The names in a comma-separated list, in lower case; none for an empty list.
// Errors: InvalidArgument naming the part that is no host name.
[[nodiscard]] absl::StatusOr<std::vector<std::string>> ParseHttpHosts(std::string_view list);

// True if `host`, the value of a Host header, is an IP address, localhost or one of `names`, with
// or without a port. names: in lower case.
[[nodiscard]] bool IsAllowedHost(std::string_view host, const std::vector<std::string>& names);

}  // namespace calibd::server

#endif  // CALIBD_SERVER_HTTP_HTTP_HOSTS_H_
