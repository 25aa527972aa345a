#include "server/rpc/grpc_status.h"

#include <string>

#include "server/status_mapping.h"

namespace calibd::server {
namespace {

// The numbers are cast, so they must be equal.
template <grpc::StatusCode kGrpc, absl::StatusCode kAbsl>
constexpr bool kSame = static_cast<int>(kGrpc) == static_cast<int>(kAbsl);
static_assert(kSame<grpc::OK, absl::StatusCode::kOk>);
static_assert(kSame<grpc::CANCELLED, absl::StatusCode::kCancelled>);
static_assert(kSame<grpc::UNKNOWN, absl::StatusCode::kUnknown>);
static_assert(kSame<grpc::INVALID_ARGUMENT, absl::StatusCode::kInvalidArgument>);
static_assert(kSame<grpc::DEADLINE_EXCEEDED, absl::StatusCode::kDeadlineExceeded>);
static_assert(kSame<grpc::NOT_FOUND, absl::StatusCode::kNotFound>);
static_assert(kSame<grpc::ALREADY_EXISTS, absl::StatusCode::kAlreadyExists>);
static_assert(kSame<grpc::PERMISSION_DENIED, absl::StatusCode::kPermissionDenied>);
static_assert(kSame<grpc::RESOURCE_EXHAUSTED, absl::StatusCode::kResourceExhausted>);
static_assert(kSame<grpc::FAILED_PRECONDITION, absl::StatusCode::kFailedPrecondition>);
static_assert(kSame<grpc::ABORTED, absl::StatusCode::kAborted>);
static_assert(kSame<grpc::OUT_OF_RANGE, absl::StatusCode::kOutOfRange>);
static_assert(kSame<grpc::UNIMPLEMENTED, absl::StatusCode::kUnimplemented>);
static_assert(kSame<grpc::INTERNAL, absl::StatusCode::kInternal>);
static_assert(kSame<grpc::UNAVAILABLE, absl::StatusCode::kUnavailable>);
static_assert(kSame<grpc::DATA_LOSS, absl::StatusCode::kDataLoss>);
static_assert(kSame<grpc::UNAUTHENTICATED, absl::StatusCode::kUnauthenticated>);

}  // namespace

grpc::Status ToGrpcStatus(const absl::Status& status) noexcept {
  if (status.ok()) {
    return {};
  }
  try {
    const rpc::Status wire = ToRpcStatus(status);
    return {static_cast<grpc::StatusCode>(wire.code()), wire.message(), wire.SerializeAsString()};
  } catch (...) {
    return {static_cast<grpc::StatusCode>(status.code()), std::string()};
  }
}

}  // namespace calibd::server
