#ifndef CALIBD_SERVER_BASE_STATUS_MAPPING_H_
#define CALIBD_SERVER_BASE_STATUS_MAPPING_H_

#include <string_view>

#include "absl/status/status.h"
#include "calibd/rpc/status.pb.h"

namespace calibd::server {

// Converts an error to its wire form. Every error gets an ErrorInfo. Message and details together
// stay below 4 KiB, because clients see larger trailers as INTERNAL. The message of a store error
// (DISK_FULL, STORE_FAILED, STORE_DAMAGED) goes to the log, at most every 10 s; the client gets a
// message without paths and statements.
[[nodiscard]] rpc::Status ToRpcStatus(const absl::Status& status);

// The error of another server, with its details. status: not OK.
[[nodiscard]] absl::Status FromRpcStatus(const rpc::Status& status);

// Logs the exception that is being handled and where it was caught, and returns the error for the
// client: RESOURCE_EXHAUSTED for bad_alloc, otherwise INTERNAL without the text of the exception.
// Call it in a catch block.
[[nodiscard]] absl::Status CurrentExceptionStatus(std::string_view part,
                                                  std::string_view stage) noexcept;

}  // namespace calibd::server

#endif  // CALIBD_SERVER_BASE_STATUS_MAPPING_H_
