#include "server/http/open_api.h"

#include <google/protobuf/descriptor.h>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/strip.h"
#include "nlohmann/json.hpp"
#include "server/http/json_api.h"
#include "server/version.h"

namespace calibd::server {
namespace {

namespace http = boost::beast::http;
using google::protobuf::Descriptor;
using google::protobuf::EnumDescriptor;
using google::protobuf::FieldDescriptor;
using Json = nlohmann::ordered_json;

// The schemas of messages in the JSON mapping of protobuf. Collects those that are used.
class Schemas {
 public:
  Json Reference(const Descriptor& message) {
    const std::string name = NameOf(message);
    if (!schemas_.contains(name)) {
      schemas_[name] = nullptr;  // A message may contain itself.
      schemas_[name] = Object(message, nullptr);
    }
    return {{"$ref", absl::StrCat("#/components/schemas/", name)}};
  }

  // without: a field that is left out; may be null.
  Json Object(const Descriptor& message, const FieldDescriptor* without) {
    Json properties = Json::object();
    for (int i = 0; i < message.field_count(); ++i) {
      const FieldDescriptor& field = *message.field(i);
      if (&field != without) properties[field.json_name()] = FieldSchema(field);
    }
    return {{"type", "object"}, {"properties", properties}, {"additionalProperties", false}};
  }

  // The schema of one value of the field.
  Json ValueSchema(const FieldDescriptor& field) {
    switch (field.cpp_type()) {
      case FieldDescriptor::CPPTYPE_INT32:
      case FieldDescriptor::CPPTYPE_UINT32:
        return {{"type", "integer"}, {"format", "int32"}};
      case FieldDescriptor::CPPTYPE_INT64:
      case FieldDescriptor::CPPTYPE_UINT64:
        return {{"type", "string"}, {"format", "int64"}};
      case FieldDescriptor::CPPTYPE_DOUBLE:
      case FieldDescriptor::CPPTYPE_FLOAT:
        return {{"type", "number"}};
      case FieldDescriptor::CPPTYPE_BOOL:
        return {{"type", "boolean"}};
      case FieldDescriptor::CPPTYPE_ENUM:
        return EnumSchema(*field.enum_type());
      case FieldDescriptor::CPPTYPE_STRING:
        return {{"type", "string"}};
      case FieldDescriptor::CPPTYPE_MESSAGE:
        break;
    }
    const std::string& name = field.message_type()->full_name();
    if (name == "google.protobuf.Timestamp") return {{"type", "string"}, {"format", "date-time"}};
    if (name == "google.protobuf.Duration") {
      return {{"type", "string"}, {"pattern", R"(^-?\d+(\.\d+)?s$)"}};
    }
    if (name == "google.protobuf.FieldMask") return {{"type", "string"}};
    return Reference(*field.message_type());
  }

  [[nodiscard]] const Json& schemas() const { return schemas_; }

 private:
  static std::string NameOf(const Descriptor& message) {
    return std::string(
        absl::StripPrefix(absl::StripPrefix(message.full_name(), "calibd.v1."), "calibd."));
  }

  static Json EnumSchema(const EnumDescriptor& type) {
    Json values = Json::array();
    for (int i = 0; i < type.value_count(); ++i) values.push_back(type.value(i)->name());
    return {{"type", "string"}, {"enum", values}};
  }

  Json FieldSchema(const FieldDescriptor& field) {
    if (field.is_map()) {
      return {{"type", "object"},
              {"additionalProperties", ValueSchema(*field.message_type()->map_value())}};
    }
    if (field.is_repeated()) return {{"type", "array"}, {"items", ValueSchema(field)}};
    return ValueSchema(field);
  }

  Json schemas_ = Json::object();
};

// The field of a request that the path sets; null without one. Of a declaration, the path sets the
// name.
const FieldDescriptor* ResourceField(const Descriptor& request) {
  const FieldDescriptor* const model = request.FindFieldByName("model");
  if (model == nullptr) return request.FindFieldByName("name");
  return model->message_type() == nullptr ? model : nullptr;
}

const char* NameOf(http::verb verb) {
  if (verb == http::verb::post) return "post";
  return verb == http::verb::delete_ ? "delete" : "get";
}

Json PathParameter(absl::string_view name) {
  return {{"name", name}, {"in", "path"}, {"required", true}, {"schema", {{"type", "string"}}}};
}

// The fields of a request that a query may set.
void AddQueryParameters(const Descriptor& request, const FieldDescriptor* resource,
                        Schemas& schemas, Json& parameters) {
  for (int i = 0; i < request.field_count(); ++i) {
    const FieldDescriptor& field = *request.field(i);
    if (&field == resource) continue;
    Json schema = schemas.ValueSchema(field);
    if (schema.contains("$ref")) continue;
    // Each value is a parameter of its own, which is the default of OpenAPI.
    if (field.is_repeated()) schema = {{"type", "array"}, {"items", std::move(schema)}};
    parameters.push_back({{"name", field.json_name()}, {"in", "query"}, {"schema", schema}});
  }
}

Json Content(const char* type, Json schema) { return {{type, {{"schema", std::move(schema)}}}}; }

// The body of a CloudEvent: the event in structured mode, or any answer in binary mode.
Json EventContent() {
  const Json text = {{"type", "string"}};
  Json content =
      Content(kStructuredEventType.data(),
              {{"type", "object"},
               {"required", Json::array({"specversion", "id", "source", "type"})},
               {"properties",
                {{"specversion", {{"const", "1.0"}}},
                 {"id", {{"type", "string"}, {"minLength", 1}, {"maxLength", kMaxEventId}}},
                 {"source", text},
                 {"type", text},
                 {"time", {{"type", "string"}, {"format", "date-time"}}},
                 {"datacontenttype", text},
                 {"data", Json::object()},
                 {"data_base64", text}}}});
  content["*/*"] = {{"schema", Json::object()}};
  return content;
}

// The headers of the binary mode, which has no other attributes.
void AddEventHeaders(Json& parameters) {
  const auto add = [&](const char* name, const char* type, const std::string& description) {
    parameters.push_back({{"name", name},
                          {"in", "header"},
                          {"description", description},
                          {"schema", {{"type", type}}}});
  };
  add("ce-id", "string",
      absl::StrCat("Required in binary mode: the id of the event, 1..", kMaxEventId, " bytes"));
  add("ce-type", "string", "Required in binary mode: ends with .response for an answer");
  add("ce-time", "string", "Of the event, in RFC 3339");
  add("Inference-Header-Content-Length", "integer",
      "In binary mode, the length of JSON that tensors follow");
}

Json DescribeCall(const JsonRoute& route, const Json& path_parameters, Schemas& schemas) {
  const Descriptor& request = *route.request();
  const FieldDescriptor* const resource = route.resource ? ResourceField(request) : nullptr;
  Json operation = {{"summary", route.summary}};
  Json parameters = path_parameters;
  if (route.verb == http::verb::post) {
    operation["requestBody"] = {
        {"required", true},
        {"content", route.cloud_event
                        ? EventContent()
                        : Content("application/json", schemas.Object(request, resource))}};
    if (route.cloud_event) AddEventHeaders(parameters);
  } else {
    AddQueryParameters(request, resource, schemas, parameters);
  }
  operation["parameters"] = std::move(parameters);
  const Descriptor& response = route.part == nullptr ? *route.response() : *route.part_type();
  operation["responses"] = {
      {"200",
       {{"description", "OK"},
        {"content", Content(route.events ? "text/event-stream" : "application/json",
                            schemas.Reference(response))}}},
      {"default",
       {{"description", "An error"},
        {"content", Content("application/json", {{"$ref", "#/components/schemas/Error"}})}}}};
  return operation;
}

Json ErrorSchema() {
  const Json text = {{"type", "string"}};
  return {{"type", "object"},
          {"required", Json::array({"error"})},
          {"properties",
           {{"error",
             {{"type", "object"},
              {"required", Json::array({"code", "status", "message", "details"})},
              {"properties",
               {{"code", {{"type", "integer"}}},
                {"status", text},
                {"message", text},
                {"details",
                 {{"type", "array"},
                  {"items",
                   {{"type", "object"},
                    {"required", Json::array({"@type"})},
                    {"properties", {{"@type", text}}}}}}}}}}}}}};
}

}  // namespace

std::string OpenApiText() {
  Schemas schemas;
  Json paths = Json::object();
  const auto add = [&](const std::string& path, const JsonRoute& route, const Json& parameters) {
    paths[path][NameOf(route.verb)] = DescribeCall(route, parameters, schemas);
  };
  for (const JsonRoute& route : JsonRoutes()) {
    if (!route.resource) {
      add(TemplateOf(route), route, Json::array());
      continue;
    }
    add(TemplateOf(route), route, Json::array({PathParameter("model")}));
    add("/v1/models/{model}/versions/{version}" + std::string(route.path), route,
        Json::array({PathParameter("model"), PathParameter("version")}));
  }
  Json components = schemas.schemas();
  components["Error"] = ErrorSchema();
  const Json document = {{"openapi", "3.1.0"},
                         {"info",
                          {{"title", "calibd"},
                           {"version", kVersion},
                           {"description",
                            "The messages are those of calibd's gRPC services in protobuf's JSON "
                            "mapping; their .proto "
                            "files describe each field."}}},
                         {"paths", paths},
                         {"components", {{"schemas", components}}}};
  return document.dump(2) + "\n";
}

}  // namespace calibd::server
