#ifndef CALIBD_SERVER_PROCESS_READY_FILE_H_
#define CALIBD_SERVER_PROCESS_READY_FILE_H_

#include <string>

#include "absl/status/status.h"

namespace calibd::server {

// Writes {"grpc": "127.0.0.1:PORT", "http": "127.0.0.1:PORT", "pid": N} atomically. Errors:
// Unavailable with the system's reason.
[[nodiscard]] absl::Status WriteReadyFile(const std::string& path, const std::string& grpc_address,
                                          const std::string& http_address);

}  // namespace calibd::server

#endif  // CALIBD_SERVER_PROCESS_READY_FILE_H_
