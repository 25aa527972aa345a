#ifndef CALIBD_SERVER_HEALTHCHECK_H_
#define CALIBD_SERVER_HEALTHCHECK_H_

#include <string>

namespace calibd::server {

// Asks the gRPC health service at this address, or on loopback when it is a
// wildcard address. Prints what it found; returns the exit code, 0 for SERVING,
// else 1. Takes 5 seconds at most.
[[nodiscard]] int RunHealthcheck(const std::string& listen);

}  // namespace calibd::server

#endif  // CALIBD_SERVER_HEALTHCHECK_H_
