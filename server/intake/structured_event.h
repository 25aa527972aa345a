#ifndef CALIBD_SERVER_INTAKE_STRUCTURED_EVENT_H_
#define CALIBD_SERVER_INTAKE_STRUCTURED_EVENT_H_

#include <optional>
#include <string_view>

#include "absl/status/statusor.h"
#include "nlohmann/json.hpp"
#include "server/intake/cloud_event.h"

namespace calibd::server {

// A CloudEvent of version 1.0 in its JSON format (https://github.com/cloudevents/spec).
struct StructuredEvent {
  // The same in binary mode. The content type is empty if the event does not state it, which means
  // JSON. The body is the text of "data" or the bytes of "data_base64".
  InferenceEvent event{};
  // "data", unless it is a text.
  std::optional<nlohmann::json> json{};
  bool has_data = false;
  // The data is in "data_base64".
  bool has_bytes = false;
};

// Attributes that InferenceEvent does not have are ignored. Errors: InvalidArgument that names the
// attribute.
[[nodiscard]] absl::StatusOr<StructuredEvent> ParseStructuredEvent(std::string_view body);

}  // namespace calibd::server

#endif  // CALIBD_SERVER_INTAKE_STRUCTURED_EVENT_H_
