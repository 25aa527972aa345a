#include "status_conversion.h"

#include <algorithm>

#include "absl/strings/cord.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "calibd/text/printable.h"

namespace calibd::client {
namespace {

constexpr char kBadRequest[] = "type.googleapis.com/google.rpc.BadRequest";
constexpr char kRetryInfo[] = "type.googleapis.com/google.rpc.RetryInfo";
constexpr char kErrorInfo[] = "type.googleapis.com/google.rpc.ErrorInfo";

// Limits the shown text, because a server can send any number of violations.
constexpr int kMaxShownViolations = 10;
// Texts of a server have at most so many bytes before their unprintable parts are escaped.
constexpr std::size_t kMaxText = 10'000;

template <typename Message>
std::optional<Message> Detail(const absl::Status& status, const char* type_url) {
  const absl::optional<absl::Cord> payload = status.GetPayload(type_url);
  Message message;
  if (!payload.has_value() || !message.ParseFromString(std::string(*payload))) return std::nullopt;
  return message;
}

}  // namespace

std::string ServerText(std::string_view text) {
  return EscapeUnprintable(text.substr(0, kMaxText));
}

absl::Status FromRpcStatus(const rpc::Status& status) {
  // gRPC and absl share their code numbers; anything else is not a code.
  const bool known = status.code() >= 0 && status.code() <= 16;
  const auto code =
      known ? static_cast<absl::StatusCode>(status.code()) : absl::StatusCode::kUnknown;
  if (code == absl::StatusCode::kOk) return absl::OkStatus();
  std::string message = ServerText(status.message());
  for (const auto& any : status.details()) {
    rpc::BadRequest bad_request;
    if (any.type_url() != kBadRequest || !bad_request.ParseFromString(any.value())) continue;
    int shown = 0;
    for (const auto& violation : bad_request.field_violations()) {
      const std::string description = ServerText(violation.description());
      if (absl::StrContains(message, description)) continue;
      if (++shown > kMaxShownViolations) break;
      absl::StrAppend(&message, message.empty() ? "" : "; ", ServerText(violation.field()), ": ",
                      description);
    }
  }
  absl::Status result(code, message);
  for (const auto& any : status.details()) {
    result.SetPayload(any.type_url(), absl::Cord(any.value()));
  }
  return result;
}

absl::Status FromGrpcStatus(const grpc::Status& status) {
  if (status.ok()) return absl::OkStatus();
  rpc::Status full;
  // Details that cannot be read or belong to another status are ignored.
  if (!full.ParseFromString(status.error_details()) || full.code() != status.error_code()) {
    full.Clear();
  }
  full.set_code(status.error_code());
  full.set_message(status.error_message());
  return FromRpcStatus(full);
}

std::optional<std::chrono::milliseconds> RetryDelay(const absl::Status& status) {
  const auto info = Detail<rpc::RetryInfo>(status, kRetryInfo);
  if (!info.has_value()) return std::nullopt;
  // Bounded, so that a wrong response cannot block a client for years.
  const auto seconds = std::clamp<std::int64_t>(info->retry_delay().seconds(), 0, 3600);
  const auto nanos = std::clamp<std::int32_t>(info->retry_delay().nanos(), 0, 999'999'999);
  return std::chrono::milliseconds(seconds * 1000 + nanos / 1'000'000);
}

std::vector<Violation> ViolationsOf(
    const google::protobuf::RepeatedPtrField<rpc::BadRequest::FieldViolation>& fields) {
  std::vector<Violation> violations;
  violations.reserve(static_cast<std::size_t>(fields.size()));
  for (const auto& field : fields) {
    violations.push_back(ParsePath(ServerText(field.field()), ServerText(field.description())));
  }
  return violations;
}

std::vector<Violation> FieldViolations(const absl::Status& status) {
  const auto bad_request = Detail<rpc::BadRequest>(status, kBadRequest);
  return ViolationsOf(bad_request.value_or(rpc::BadRequest()).field_violations());
}

absl::Status InvalidRowsError(std::span<const Violation> violations, std::int64_t more) {
  rpc::BadRequest bad_request;
  for (const Violation& violation : violations) {
    rpc::BadRequest::FieldViolation& out = *bad_request.add_field_violations();
    out.set_field(PathOf(violation));
    out.set_description(violation.description);
  }
  absl::Status status = absl::InvalidArgumentError(absl::StrCat(
      DescribeViolations(violations), more > 0 ? absl::StrCat("; ", more, " more") : ""));
  status.SetPayload(kBadRequest, absl::Cord(bad_request.SerializeAsString()));
  return status;
}

std::string ErrorReason(const absl::Status& status) {
  const auto info = Detail<rpc::ErrorInfo>(status, kErrorInfo);
  return info.has_value() ? info->reason() : std::string();
}

bool IsRetryable(const absl::Status& status) {
  return absl::IsUnavailable(status) ||
         (absl::IsResourceExhausted(status) && RetryDelay(status).has_value());
}

bool IsCutOff(const absl::Status& status) {
  const bool made_up =
      absl::IsUnknown(status) || absl::IsInternal(status) || absl::IsCancelled(status);
  return made_up && ErrorReason(status).empty();
}

}  // namespace calibd::client
