#include "server/http/http_error.h"

#include <array>
#include <chrono>
#include <string_view>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "calibd/convert/json.h"
#include "server/base/errors.h"
#include "server/base/status_mapping.h"

namespace calibd::server {
namespace {

using convert::Json;

unsigned HttpStatusOf(absl::StatusCode code) {
  switch (code) {
    case absl::StatusCode::kOk:
      return 200;
    case absl::StatusCode::kInvalidArgument:
    case absl::StatusCode::kFailedPrecondition:
    case absl::StatusCode::kOutOfRange:
      return 400;
    case absl::StatusCode::kUnauthenticated:
      return 401;
    case absl::StatusCode::kPermissionDenied:
      return 403;
    case absl::StatusCode::kNotFound:
      return 404;
    case absl::StatusCode::kAlreadyExists:
    case absl::StatusCode::kAborted:
      return 409;
    case absl::StatusCode::kResourceExhausted:
      return 429;
    case absl::StatusCode::kUnimplemented:
      return 405;
    case absl::StatusCode::kUnavailable:
      return 503;
    case absl::StatusCode::kDeadlineExceeded:
      return 504;
    default:
      return 500;
  }
}

// The reasons that have a status of their own in HTTP.
struct ReasonStatus {
  std::string_view reason;
  unsigned status;
};
constexpr std::array<ReasonStatus, 5> kReasonStatuses{{
    {.reason = "LENGTH_REQUIRED", .status = 411},
    {.reason = "MESSAGE_TOO_LARGE", .status = 413},
    {.reason = "UNEXPECTED_BODY", .status = 413},
    {.reason = "UNSUPPORTED_MEDIA_TYPE", .status = 415},
    {.reason = "HEADER_TOO_LARGE", .status = 431},
}};

template <typename Detail>
Json DetailJson(const google::protobuf::Any& any) {
  Detail detail;
  detail.ParseFromString(any.value());
  Json json = convert::ToJson(detail);
  json["@type"] = any.type_url();
  return json;
}

Json DetailJson(const google::protobuf::Any& any) {
  if (absl::EndsWith(any.type_url(), ".BadRequest")) return DetailJson<rpc::BadRequest>(any);
  if (absl::EndsWith(any.type_url(), ".ErrorInfo")) return DetailJson<rpc::ErrorInfo>(any);
  if (absl::EndsWith(any.type_url(), ".RetryInfo")) return DetailJson<rpc::RetryInfo>(any);
  return DetailJson<rpc::ResourceInfo>(any);
}

}  // namespace

std::string JsonErrorText(const absl::Status& status) {
  const rpc::Status wire = ToRpcStatus(status);
  Json details = Json::array();
  for (const google::protobuf::Any& any : wire.details()) details.push_back(DetailJson(any));
  const Json error = {{"code", HttpStatusOf(status)},
                      {"status", absl::StatusCodeToString(status.code())},
                      {"message", wire.message()},
                      {"details", std::move(details)}};
  return Json{{"error", error}}.dump(-1, ' ', false, Json::error_handler_t::replace);
}

unsigned HttpStatusOf(const absl::Status& status) {
  if (const std::optional<rpc::ErrorInfo> info = GetErrorInfo(status)) {
    for (const ReasonStatus& one : kReasonStatuses) {
      if (one.reason == info->reason()) return one.status;
    }
  }
  return HttpStatusOf(status.code());
}

std::optional<std::int64_t> RetrySeconds(const absl::Status& status) {
  const rpc::Status wire = ToRpcStatus(status);
  for (const google::protobuf::Any& any : wire.details()) {
    rpc::RetryInfo info;
    if (absl::EndsWith(any.type_url(), ".RetryInfo") && info.ParseFromString(any.value())) {
      return info.retry_delay().seconds() + (info.retry_delay().nanos() > 0 ? 1 : 0);
    }
  }
  return status.code() == absl::StatusCode::kUnavailable ? std::optional<std::int64_t>(1)
                                                         : std::nullopt;
}

absl::Status TooManyEventStreamsError(const FairShares& streams, const std::string& caller) {
  const std::string what =
      streams.taken() >= streams.places()
          ? absl::StrCat("there are ", streams.taken(), " streams of events, the limit")
          : absl::StrCat("this caller has ", streams.TakenBy(caller),
                         " streams of events, its share of the limit of ", streams.places());
  return WithRetryDelay(
      MakeError(absl::StatusCode::kResourceExhausted, "TOO_MANY_EVENT_STREAMS",
                absl::StrCat(what,
                             " (a quarter of max-http-connections): close unused ones, or try "
                             "again when one has ended")),
      std::chrono::seconds(1));
}

}  // namespace calibd::server
