#ifndef CALIBD_SERVER_STORE_POSTGRES_CONNECTION_STRING_H_
#define CALIBD_SERVER_STORE_POSTGRES_CONNECTION_STRING_H_

#include <string>

#include "absl/status/status.h"

namespace calibd::server {

// Whether the connection string names no password: it would be visible to every process of the
// machine. An empty string means the conventions of libpq: PGHOST, PGSERVICE and so on. Errors:
// InvalidArgument, with a message that says what is wrong with it.
[[nodiscard]] absl::Status CheckConnectionString(const std::string& text);

}  // namespace calibd::server

#endif  // CALIBD_SERVER_STORE_POSTGRES_CONNECTION_STRING_H_
