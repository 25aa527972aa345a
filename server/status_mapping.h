#ifndef CALIBD_SERVER_STATUS_MAPPING_H_
#define CALIBD_SERVER_STATUS_MAPPING_H_

#include <string_view>

#include "absl/status/status.h"
#include "calibd/rpc/status.pb.h"

namespace calibd::server {

// An error as it goes over the wire. Every one has an ErrorInfo; message and
// details together stay below 4 KiB, because larger trailers reach clients as
// INTERNAL. Of an error of the store (DISK_FULL, STORE_FAILED, STORE_DAMAGED) the message goes to
// the log, at most every 10 s, and the client gets one without paths and SQL.
[[nodiscard]] rpc::Status ToRpcStatus(const absl::Status& status);

// Logs the exception that is being handled, with where it was caught, and returns what a client
// gets to see of it: RESOURCE_EXHAUSTED for bad_alloc, INTERNAL without its text for any other.
// Call it in a catch block.
[[nodiscard]] absl::Status CurrentExceptionStatus(std::string_view part,
                                                  std::string_view stage) noexcept;

}  // namespace calibd::server

#endif  // CALIBD_SERVER_STATUS_MAPPING_H_
