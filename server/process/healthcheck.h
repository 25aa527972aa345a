#ifndef CALIBD_SERVER_PROCESS_HEALTHCHECK_H_
#define CALIBD_SERVER_PROCESS_HEALTHCHECK_H_

#include <string>

#include "server/net/tls_certificates.h"

namespace calibd::server {

// Queries the gRPC health service at this address, or on loopback for a wildcard address. Prints
// the result and returns the exit code: 0 for SERVING, otherwise 1. Takes at most 5 seconds.
//
// tls: the files of the server, empty without TLS. The check shows the certificate of the server as
// its own, which proves that it has the key. It does not check who answers, because it sends
// nothing that is secret.
[[nodiscard]] int RunHealthcheck(const std::string& listen, const TlsFiles& tls = {});

}  // namespace calibd::server

#endif  // CALIBD_SERVER_PROCESS_HEALTHCHECK_H_
