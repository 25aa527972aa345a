#ifndef CALIBD_SERVER_RPC_STATUS_MAPPING_H_
#define CALIBD_SERVER_RPC_STATUS_MAPPING_H_

#include <grpcpp/support/status.h>

#include <exception>
#include <new>
#include <utility>

#include "absl/status/status.h"
#include "calibd/rpc/status.pb.h"

namespace calibd::server {

// An error as it goes over the wire. Every one has an ErrorInfo; message and
// details together stay below 4 KiB, because larger trailers reach clients as
// INTERNAL. Of an error of the store (DISK_FULL, STORE_FAILED, STORE_DAMAGED) the message goes to
// the log, at most every 10 s, and the client gets one without paths and SQL.
[[nodiscard]] rpc::Status ToRpcStatus(const absl::Status& status);
[[nodiscard]] grpc::Status ToGrpcStatus(const absl::Status& status);

// What a caller gets to see of an exception: RESOURCE_EXHAUSTED for bad_alloc,
// INTERNAL without its text for any other. Call it in a catch block.
[[nodiscard]] absl::Status CurrentExceptionStatus() noexcept;

// body(), a StatusOr or Status, with exceptions turned into errors.
template <typename Body>
auto CatchExceptions(Body body) -> decltype(body()) {
  try {
    return body();
  } catch (...) {
    return CurrentExceptionStatus();
  }
}

}  // namespace calibd::server

#endif  // CALIBD_SERVER_RPC_STATUS_MAPPING_H_
