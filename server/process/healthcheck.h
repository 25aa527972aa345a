#ifndef CALIBD_SERVER_PROCESS_HEALTHCHECK_H_
#define CALIBD_SERVER_PROCESS_HEALTHCHECK_H_

#include <string>

namespace calibd::server {

// Queries the gRPC health service at this address, or on loopback for a wildcard address. Prints
// the result and returns the exit code: 0 for SERVING, otherwise 1. Takes at most 5 seconds.
[[nodiscard]] int RunHealthcheck(const std::string& listen);

}  // namespace calibd::server

#endif  // CALIBD_SERVER_PROCESS_HEALTHCHECK_H_
