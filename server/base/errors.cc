#include "server/base/errors.h"

#include <array>

#include "absl/strings/cord.h"
#include "absl/strings/escaping.h"
#include "absl/strings/str_cat.h"
#include "calibd/text/printable.h"
#include "google/protobuf/util/time_util.h"

namespace calibd::server {
namespace {

constexpr char kBadRequestUrl[] = "type.googleapis.com/google.rpc.BadRequest";
constexpr char kResourceInfoUrl[] = "type.googleapis.com/google.rpc.ResourceInfo";
constexpr char kRetryInfoUrl[] = "type.googleapis.com/google.rpc.RetryInfo";

absl::string_view View(std::string_view text) { return {text.data(), text.size()}; }

}  // namespace

absl::Status MakeError(absl::StatusCode code, std::string_view reason, std::string_view message,
                       const ErrorMetadata& metadata) {
  return WithReason(absl::Status(code, View(message)), reason, metadata);
}

absl::Status WithClientMessage(absl::Status status, std::string_view message) {
  status.SetPayload(kClientMessageUrl, absl::Cord(View(message)));
  return status;
}

absl::Status WithReason(absl::Status status, std::string_view reason,
                        const ErrorMetadata& metadata) {
  rpc::ErrorInfo info;
  for (const auto& [key, value] : metadata) (*info.mutable_metadata())[key] = value;
  info.set_reason(std::string(reason));
  info.set_domain("calibd");
  status.SetPayload(kErrorInfoUrl, absl::Cord(info.SerializeAsString()));
  return status;
}

absl::Status InvalidFieldsError(std::string_view reason, std::span<const Violation> violations) {
  absl::Status status =
      MakeError(absl::StatusCode::kInvalidArgument, reason, DescribeViolations(violations));
  rpc::BadRequest bad_request;
  for (const Violation& violation : violations) {
    rpc::BadRequest::FieldViolation* field = bad_request.add_field_violations();
    field->set_field(PathOf(violation));
    field->set_description(violation.description);
  }
  status.SetPayload(kBadRequestUrl, absl::Cord(bad_request.SerializeAsString()));
  return status;
}

absl::Status InvalidFieldError(std::string_view field, std::string_view description) {
  const std::array<Violation, 1> violations{
      Violation{.field = std::string(field), .description = std::string(description)}};
  return InvalidFieldsError("INVALID_FIELD", violations);
}

absl::Status InvalidFieldError(const absl::Status& status) {
  const std::string_view message(status.message().data(), status.message().size());
  const std::size_t space = message.find(' ');
  return InvalidFieldError(message.substr(0, space), message.substr(space + 1));
}

absl::Status InvalidJsonError(std::string_view what, std::string_view why) {
  return MakeError(absl::StatusCode::kInvalidArgument, "INVALID_JSON",
                   absl::StrCat(View(what), " is invalid: ", Quoted(why, 300)));
}

absl::Status ModelError(absl::StatusCode code, std::string_view reason, std::string_view name,
                        std::string_view message) {
  absl::Status status = MakeError(code, reason, message);
  rpc::ResourceInfo resource;
  resource.set_resource_type("calibd.v1.Model");
  resource.set_resource_name(std::string(name));
  status.SetPayload(kResourceInfoUrl, absl::Cord(resource.SerializeAsString()));
  return status;
}

absl::Status ModelNotFoundError(std::string_view name) {
  return ModelError(absl::StatusCode::kNotFound, "MODEL_NOT_FOUND", name,
                    absl::StrCat("there is no model ", View(name)));
}

absl::Status StartingError() {
  return WithRetryDelay(MakeError(absl::StatusCode::kUnavailable, "STARTING",
                                  "the server is starting and recovers its models; retry later"),
                        std::chrono::milliseconds(500));
}

absl::Status NotOwnerError(std::string_view message, const ErrorMetadata& metadata) {
  return WithRetryDelay(MakeError(absl::StatusCode::kUnavailable, "NOT_OWNER", message, metadata),
                        std::chrono::milliseconds(250));
}

absl::Status DrainingError() {
  return WithRetryDelay(
      MakeError(absl::StatusCode::kUnavailable, "DRAINING", "the server is shutting down"),
      std::chrono::seconds(1));
}

absl::Status WithRetryDelay(absl::Status status, std::chrono::milliseconds delay) {
  rpc::RetryInfo retry;
  *retry.mutable_retry_delay() =
      google::protobuf::util::TimeUtil::MillisecondsToDuration(delay.count());
  status.SetPayload(kRetryInfoUrl, absl::Cord(retry.SerializeAsString()));
  return status;
}

std::optional<rpc::ErrorInfo> GetErrorInfo(const absl::Status& status) {
  const absl::optional<absl::Cord> payload = status.GetPayload(kErrorInfoUrl);
  rpc::ErrorInfo info;
  if (!payload.has_value() || !info.ParseFromString(std::string(*payload))) return std::nullopt;
  return info;
}

std::string Quoted(std::string_view text, std::size_t max_length) {
  const bool cut = text.size() > max_length;
  // Letters stay readable, whatever their script.
  const std::string escaped = absl::Utf8SafeCHexEscape(View(text.substr(0, max_length)));
  return absl::StrCat("\"", EscapeUnprintable(escaped), cut ? "\"..." : "\"");
}

}  // namespace calibd::server
