#ifndef CALIBD_SERVER_INTAKE_CLOUD_EVENT_H_
#define CALIBD_SERVER_INTAKE_CLOUD_EVENT_H_

#include <cstddef>
#include <string>
#include <string_view>

namespace calibd::server {

// The payload log of KServe: a model server's answers as CloudEvents over HTTP
// (https://github.com/cloudevents/spec, Open Inference Protocol). Other servers may send the same.
// In binary mode, the body is the answer. In structured mode, whose content type is
// kStructuredEventType, the body is the event in JSON, and only content_type and body are read.
struct InferenceEvent {
  // The headers ce-id, ce-type and ce-time; empty if they are missing.
  std::string id{};
  std::string type{};
  std::string time{};
  std::string content_type{};
  // The header Inference-Header-Content-Length: the length of the JSON that tensors follow. May be
  // missing, because KServe's logger leaves it out.
  std::string json_length{};
  // The answer: JSON of version 1 or 2 of the protocol, of which version 2 may be followed by
  // tensors, or a ModelInferResponse of version 2.
  std::string body{};
  // The name of the body, for errors: that of the attribute of a structured event.
  const char* body_field = "body";
};

inline constexpr std::string_view kStructuredEventType = "application/cloudevents+json";
// The longest id of an event in bytes. The ids of its rows are longer.
inline constexpr std::size_t kMaxEventId = 100;

// The content type without parameters, in lower case.
[[nodiscard]] std::string MediaType(std::string_view content_type);

}  // namespace calibd::server

#endif  // CALIBD_SERVER_INTAKE_CLOUD_EVENT_H_
