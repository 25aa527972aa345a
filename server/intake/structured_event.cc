#include "server/intake/structured_event.h"

#include <utility>

#include "absl/strings/escaping.h"
#include "absl/strings/str_cat.h"
#include "calibd/core/status_macros.h"
#include "server/base/errors.h"
#include "server/intake/inference_answer.h"

namespace calibd::server {
namespace {

using Document = nlohmann::json;

// A value of the event; null if it is missing. In the JSON format, null means missing.
Document* Find(Document& event, const char* name) {
  const auto found = event.find(name);
  return found == event.end() || found->is_null() ? nullptr : &*found;
}

// The text of an attribute; empty if it is missing. Errors: InvalidArgument if it is no text, or if
// it is required and empty.
absl::StatusOr<std::string> ReadText(Document& event, const char* name, bool required) {
  Document* const value = Find(event, name);
  if (value == nullptr && !required) return std::string();
  if (value == nullptr || !value->is_string() ||
      (required && value->get_ref<std::string&>().empty())) {
    return InvalidFieldError(name, value == nullptr ? "is missing, expected a CloudEvent in JSON"
                                                    : "is not a text of at least one character");
  }
  return std::move(value->get_ref<std::string&>());
}

}  // namespace

absl::StatusOr<StructuredEvent> ParseStructuredEvent(std::string_view body) {
  CALIBD_ASSIGN_OR_RETURN(Document event, ParseJsonObject(body, "body", "an event"));
  CALIBD_ASSIGN_OR_RETURN(const std::string version, ReadText(event, "specversion", true));
  if (version != "1.0") {
    return InvalidFieldError("specversion", absl::StrCat("is ", Quoted(version), ", expected 1.0"));
  }
  StructuredEvent read;
  CALIBD_ASSIGN_OR_RETURN(read.event.id, ReadText(event, "id", true));
  CALIBD_ASSIGN_OR_RETURN(read.event.type, ReadText(event, "type", true));
  CALIBD_RETURN_IF_ERROR(ReadText(event, "source", true).status());
  CALIBD_ASSIGN_OR_RETURN(read.event.time, ReadText(event, "time", false));
  CALIBD_ASSIGN_OR_RETURN(read.event.content_type, ReadText(event, "datacontenttype", false));
  Document* const data = Find(event, "data");
  const bool encoded = Find(event, "data_base64") != nullptr;
  if (data != nullptr && encoded) {
    return InvalidFieldError("data_base64", "is present beside data, expected one of them");
  }
  read.has_data = data != nullptr || encoded;
  read.has_bytes = encoded;
  read.event.body_field = encoded ? "data_base64" : "data";
  if (encoded) {
    CALIBD_ASSIGN_OR_RETURN(const std::string text, ReadText(event, "data_base64", false));
    if (!absl::Base64Unescape(text, &read.event.body)) {
      return InvalidFieldError("data_base64", "is not valid Base64");
    }
  } else if (data != nullptr && data->is_string()) {
    read.event.body = std::move(data->get_ref<std::string&>());
  } else if (data != nullptr) {
    read.json = std::move(*data);
  }
  return read;
}

}  // namespace calibd::server
