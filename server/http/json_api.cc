#include "server/http/json_api.h"

#include <algorithm>
#include <array>
#include <boost/beast/http/field.hpp>
#include <boost/beast/http/status.hpp>
#include <cstdint>
#include <optional>
#include <type_traits>
#include <utility>
#include <vector>

#include "absl/strings/ascii.h"
#include "absl/strings/escaping.h"
#include "absl/strings/match.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/strings/str_split.h"
#include "calibd/convert/json_reader.h"
#include "calibd/core/status_macros.h"
#include "calibd/rpc/rules.pb.h"
#include "nlohmann/json.hpp"
#include "server/api/api.h"
#include "server/base/errors.h"
#include "server/http/json_call.h"

namespace calibd::server {
namespace {

namespace http = boost::beast::http;
using google::protobuf::Message;
using Json = nlohmann::ordered_json;

// How the paths of a resource begin.
constexpr std::string_view kModelTemplate = "/v1/models/{model}";

absl::string_view View(std::string_view text) { return {text.data(), text.size()}; }

// Reads a message from JSON. what: "the body" or other, for errors. Errors: InvalidArgument.
absl::Status ParseJson(std::string_view json, std::string_view what, Message& message) {
  const std::optional<convert::JsonFault> fault = convert::ReadJson(json, message);
  if (!fault.has_value()) return absl::OkStatus();
  if (fault->field.empty()) {
    return MakeError(absl::StatusCode::kInvalidArgument, "INVALID_JSON",
                     absl::StrCat(View(what), " ", fault->description));
  }
  const Violation violation{.field = fault->field, .description = fault->description};
  return InvalidFieldsError("INVALID_JSON", std::span(&violation, 1));
}

// Whether the text has %XX at this place.
bool IsEncoded(absl::string_view text, std::size_t i) {
  return text[i] == '%' && i + 2 < text.size() &&
         absl::ascii_isxdigit(static_cast<unsigned char>(text[i + 1])) &&
         absl::ascii_isxdigit(static_cast<unsigned char>(text[i + 2]));
}

// Decodes %XX in a path, once. Errors: InvalidArgument. No name has an encoded "/", which would
// look like the end of a segment.
absl::StatusOr<std::string> DecodePath(absl::string_view path) {
  std::string decoded;
  bool valid = true;
  for (std::size_t i = 0; i < path.size(); ++i) {
    if (IsEncoded(path, i)) {
      decoded += absl::HexStringToBytes(path.substr(i + 1, 2));
      i += 2;
      const auto byte = static_cast<unsigned char>(decoded.back());
      valid = valid && byte != '/' && !absl::ascii_iscntrl(byte);
    } else {
      valid = valid && path[i] != '%';
      decoded += path[i];
    }
  }
  if (valid) return decoded;
  return InvalidFieldError(
      "path", absl::StrCat("is ", Quoted({path.data(), path.size()}),
                           ", expected % only before the two hexadecimal digits of a byte that is "
                           "neither / nor a control character"));
}

// Decodes %XX and "+". Returns nothing if the text is invalid.
std::optional<std::string> DecodeQuery(absl::string_view text) {
  std::string decoded;
  for (std::size_t i = 0; i < text.size(); ++i) {
    if (IsEncoded(text, i)) {
      decoded += absl::HexStringToBytes(text.substr(i + 1, 2));
      i += 2;
    } else if (text[i] == '%') {
      return std::nullopt;
    } else {
      decoded += text[i] == '+' ? ' ' : text[i];
    }
  }
  return decoded;
}

// Decodes an attribute of a CloudEvent in a header: quotation marks with their escapes, and then
// %XX. Another "%" stays, as some senders do not encode. CloudEvents 1.0, HTTP binding, 3.1.3.2.
std::string DecodeAttribute(absl::string_view text) {
  std::string unquoted(text.data(), text.size());
  if (text.size() >= 2 && text.front() == '"' && text.back() == '"') {
    unquoted.clear();
    for (std::size_t i = 1; i + 1 < text.size(); ++i) {
      if (text[i] == '\\' && i + 2 < text.size()) ++i;
      unquoted += text[i];
    }
  }
  std::string decoded;
  for (std::size_t i = 0; i < unquoted.size(); ++i) {
    if (IsEncoded(unquoted, i)) {
      decoded += absl::HexStringToBytes(absl::string_view(unquoted).substr(i + 1, 2));
      i += 2;
    } else {
      decoded += unquoted[i];
    }
  }
  return decoded;
}

// True for a field of the message, by its name in JSON or in the .proto file, that holds a list.
bool IsList(const Message& message, const std::string& name) {
  const google::protobuf::Descriptor& type = *message.GetDescriptor();
  const google::protobuf::FieldDescriptor* const field = type.FindFieldByCamelcaseName(name);
  const auto* const found = field != nullptr ? field : type.FindFieldByName(name);
  return found != nullptr && found->is_repeated();
}

// Sets the fields that a query names: "pageSize=10&resolution=DAY". A list has one part for each of
// its values: "labels=rain&labels=fog". Errors: InvalidArgument.
absl::Status ParseQuery(const std::string& query, Message& request) {
  Json fields = Json::object();
  for (const absl::string_view part : absl::StrSplit(query, '&', absl::SkipEmpty())) {
    const std::pair<absl::string_view, absl::string_view> pair =
        absl::StrSplit(part, absl::MaxSplits('=', 1));
    const std::optional<std::string> name = DecodeQuery(pair.first);
    const std::optional<std::string> value = DecodeQuery(pair.second);
    if (!name.has_value() || !value.has_value()) {
      return InvalidJsonError("the query", absl::StrCat(part, " is not percent-encoded"));
    }
    if (IsList(request, *name)) {
      fields[*name].push_back(*value);
      continue;
    }
    if (fields.contains(*name)) {
      return InvalidJsonError("the query", absl::StrCat(*name, " is given twice"));
    }
    fields[*name] = *value;
  }
  if (fields.empty()) return absl::OkStatus();
  // Text that is not UTF-8 is rejected by the parser below.
  return ParseJson(fields.dump(-1, ' ', false, Json::error_handler_t::ignore), "the query",
                   request);
}

absl::Status CheckNoResource(const std::string& named) {
  return named.empty()
             ? absl::OkStatus()
             : InvalidFieldError("model",
                                 "is in the path and in the request, expected only in the path");
}

// Sets the resource of the path in a request. Errors: InvalidArgument if the request names one.
template <typename Request>
absl::Status SetResource(const std::string& resource, Request& request) {
  if constexpr (std::is_same_v<Request, v1::UpdateModelRequest>) {
    CALIBD_RETURN_IF_ERROR(CheckNoResource(request.model().name()));
    request.mutable_model()->set_name(resource);
  } else if constexpr (requires { request.set_model(resource); }) {
    CALIBD_RETURN_IF_ERROR(CheckNoResource(request.model()));
    request.set_model(resource);
  } else if constexpr (requires { request.set_name(resource); }) {
    CALIBD_RETURN_IF_ERROR(CheckNoResource(request.name()));
    request.set_name(resource);
  }
  return absl::OkStatus();
}

// Errors: InvalidArgument if the body does not have what the path is for.
absl::Status CheckObservations(const JsonRequest& /*http_request*/, v1::ObserveRequest& request) {
  return request.has_observations()
             ? absl::OkStatus()
             : InvalidFieldError("observations", "is missing, expected predictions");
}
absl::Status CheckLabels(const JsonRequest& /*http_request*/, v1::ObserveRequest& request) {
  return request.has_labels() ? absl::OkStatus()
                              : InvalidFieldError("labels", "is missing, expected labels by id");
}
absl::Status ContinueEvents(const JsonRequest& http_request, v1::WatchCalibrationRequest& request) {
  std::int64_t revision = 0;
  if (http_request.last_event.empty()) return absl::OkStatus();
  if (!absl::SimpleAtoi(http_request.last_event, &revision)) {
    return InvalidFieldError("Last-Event-ID", absl::StrCat("is ", Quoted(http_request.last_event),
                                                           ", expected the id of an event"));
  }
  request.set_after_revision(revision);
  return absl::OkStatus();
}

// kPrepare: completes and checks the parsed request, or null.
template <typename Request, auto kPrepare>
absl::StatusOr<std::unique_ptr<Message>> Parse(const JsonRequest& http_request) {
  auto request = std::make_unique<Request>();
  if (!http_request.body.empty()) {
    if (!http_request.query.empty()) {
      return InvalidJsonError("the query", "this path takes its fields in the body");
    }
    CALIBD_RETURN_IF_ERROR(ParseJson(http_request.body, "the body", *request));
  } else {
    CALIBD_RETURN_IF_ERROR(ParseQuery(http_request.query, *request));
  }
  CALIBD_RETURN_IF_ERROR(SetResource(http_request.resource, *request));
  if constexpr (kPrepare != nullptr) CALIBD_RETURN_IF_ERROR(kPrepare(http_request, *request));
  return request;
}

CallContext ContextOf(const char* method, const JsonRequest& request, const std::string& caller) {
  return {.method = method,
          .caller = caller,
          .owner = OwnerOf(request.identity, CallerAddress(caller)),
          .address = caller,
          .identity = request.identity};
}

template <const auto& kMethod, typename Response, typename Request>
void Call(Api& api, const Request& request, CallContext context,
          const std::shared_ptr<JsonCall>& call) {
  api.Serve(kMethod, request,
            Reply<Response>(std::make_shared<JsonSink<Response>>(std::move(context), call)));
}

template <const auto& kMethod, auto kPrepare, typename Request, typename Response>
absl::Status Serve(Api& api, const JsonRequest& http_request, const std::string& caller,
                   const std::shared_ptr<JsonCall>& call) {
  CALIBD_ASSIGN_OR_RETURN(const auto request, (Parse<Request, kPrepare>(http_request)));
  Call<kMethod, Response>(api, static_cast<const Request&>(*request),
                          ContextOf(kMethod.name, http_request, caller), call);
  return absl::OkStatus();
}

// Serves a CloudEvent.
absl::Status ServeInference(Api& api, const JsonRequest& http_request, const std::string& caller,
                            const std::shared_ptr<JsonCall>& call) {
  CallContext context = ContextOf(kObserve.name, http_request, caller);
  CALIBD_RETURN_IF_ERROR(
      api.CheckAccess(context, kObserve.right.role, "model", http_request.resource));
  CALIBD_ASSIGN_OR_RETURN(const std::shared_ptr<Model> model,
                          FindModel(api.parts().registry, "model", http_request.resource));
  InferenceEvent event = http_request.event;
  event.body = http_request.body;
  return ObserveEvent(api.parts(), model, event,
                      std::make_shared<JsonSink<v1::ObserveResponse>>(std::move(context), call));
}

// The path with this number of a call, as the contract states it. The number is valid.
JsonRoute RouteOf(std::string_view method, int number) {
  static const std::array<const google::protobuf::ServiceDescriptor*, 3> kServices{
      v1::CreateModelRequest::descriptor()->file()->service(0),
      v1::ObserveRequest::descriptor()->file()->service(0),
      v1::GetCalibrationRequest::descriptor()->file()->service(0)};
  const google::protobuf::MethodDescriptor* found = nullptr;
  for (const auto* const service : kServices) {
    if (found == nullptr) found = service->FindMethodByName(std::string(method));
  }
  const rpc::HttpRoute& http = found->options().GetExtension(rpc::http, number);
  JsonRoute route;
  route.verb = http::string_to_verb(http.method());
  route.resource = absl::StartsWith(http.path(), View(kModelTemplate));
  route.path = std::string_view(http.path()).substr(route.resource ? kModelTemplate.size() : 0);
  return route;
}

template <const auto& kMethod, auto kPrepare, typename Request, typename Response,
          typename... Extra>
void SetFunctions(absl::Status (Api::* /*function*/)(const Request&, const Reply<Response>&,
                                                     Extra...),
                  JsonRoute& route) {
  route.parse = &Parse<Request, kPrepare>;
  route.serve = &Serve<kMethod, kPrepare, Request, Response>;
}

// number: of the path among those of the call.
template <const auto& kMethod, auto kPrepare = nullptr>
JsonRoute ApiRoute(int number = 0) {
  JsonRoute route = RouteOf(kMethod.name, number);
  SetFunctions<kMethod, kPrepare>(kMethod.function, route);
  return route;
}

template <const auto& kMethod>
JsonRoute ComputingRoute() {
  JsonRoute route = ApiRoute<kMethod>();
  route.computes = true;
  return route;
}

absl::StatusOr<const Message*> ScoresOf(const Message& response) {
  const auto& calibration = static_cast<const v1::GetCalibrationResponse&>(response);
  if (calibration.has_forecast()) {
    return MakeError(
        absl::StatusCode::kFailedPrecondition, "FORECAST_MODEL",
        "the model forecasts a number, which has no reliability of classes; its coverage "
        "and scores are in `forecast` of the path /calibration");
  }
  // The JSON of a message without fields would state scores of 0.
  if (!calibration.has_scores()) {
    return MakeError(absl::StatusCode::kFailedPrecondition, "INSUFFICIENT_DATA",
                     "the model has no observations yet; send predictions with their labels");
  }
  return &calibration.scores();
}

JsonRoute EventsRoute() {
  JsonRoute route = ApiRoute<kWatchCalibration, &ContinueEvents>();
  route.events = true;
  return route;
}

JsonRoute ReliabilityRoute() {
  JsonRoute route = ApiRoute<kGetCalibration>(1);
  route.part = &ScoresOf;
  return route;
}

JsonRoute InferenceRoute() {
  JsonRoute route = RouteOf(kObserve.name, 2);
  route.cloud_event = true;
  route.memory_per_byte = 64;
  route.serve = &ServeInference;
  return route;
}

// Returns the length of the resource name "models/{model}[/versions/{version}]" with which the path
// begins, or 0 if it begins with something else.
// A segment of a name ends at '/' or ':'.
std::size_t ResourceLength(std::string_view path) {
  const auto segment_end = [&](std::size_t begin) {
    const std::size_t end = path.find_first_of("/:", begin);
    return end == std::string_view::npos ? path.size() : end;
  };
  constexpr std::string_view kModels = "models/";
  constexpr std::string_view kVersions = "/versions/";
  if (!absl::StartsWith(View(path), View(kModels))) return 0;
  std::size_t end = segment_end(kModels.size());
  if (end == kModels.size()) return 0;
  if (absl::StartsWith(View(path.substr(end)), View(kVersions))) {
    end = segment_end(end + kVersions.size());
  }
  return end;
}

// Errors: InvalidArgument for "models/M@V", the short form of calibctl.
absl::Status CheckNoShortVersion(const std::string& resource) {
  const std::vector<std::string> parts = absl::StrSplit(resource, absl::ByAnyChar("/@"));
  const bool is_short = parts.size() == 3 && absl::StrContains(resource, '@') &&
                        !parts[1].empty() && !parts[2].empty();
  if (!is_short) return absl::OkStatus();
  return InvalidFieldError(
      "model", absl::StrCat("is ", Quoted(resource), ", expected a version in the form ",
                            Quoted(absl::StrCat("models/", parts[1], "/versions/", parts[2]))));
}

// The target without its query.
std::string_view PathOf(std::string_view target) { return target.substr(0, target.find('?')); }

// The routes of a decoded path below kApiPrefix, one for each method that it has.
std::vector<const JsonRoute*> RoutesOf(std::string_view path) {
  const std::string_view name = path.substr(kApiPrefix.size());
  const std::size_t length = ResourceLength(name);
  const std::string_view rest = length > 0 ? name.substr(length) : path;
  std::vector<const JsonRoute*> routes;
  for (const JsonRoute& route : JsonRoutes()) {
    if (route.path == rest && route.resource == (length > 0)) routes.push_back(&route);
  }
  return routes;
}

// HEAD is answered as GET, without the body. The answer of a stream of events is only its body.
bool TakesHead(const JsonRoute& route) { return route.verb == http::verb::get && !route.events; }

}  // namespace

InferenceEvent EventOf(const HttpRequest& header) {
  const auto field = [&header](const auto& name) { return std::string(header[name]); };
  return {.id = DecodeAttribute(field("ce-id")),
          .type = DecodeAttribute(field("ce-type")),
          .time = DecodeAttribute(field("ce-time")),
          .content_type = field(http::field::content_type),
          .json_length = field("Inference-Header-Content-Length")};
}

std::span<const JsonRoute> JsonRoutes() {
  static const std::array kRoutes{
      ApiRoute<kListModels>(),
      ApiRoute<kCreateModel>(),
      ApiRoute<kGetModel>(),
      ApiRoute<kDeleteModel>(),
      ApiRoute<kUpdateModel>(),
      ApiRoute<kListVerdicts>(),
      ApiRoute<kAcknowledgeAlarm>(),
      ApiRoute<kGetCalibration>(),
      ReliabilityRoute(),
      ApiRoute<kGetHistory>(),
      EventsRoute(),
      ApiRoute<kObserve, &CheckObservations>(0),
      ApiRoute<kObserve, &CheckLabels>(1),
      InferenceRoute(),
      ComputingRoute<kEvaluate>(),
      ComputingRoute<kRunTest>(),
      ComputingRoute<kEstimateCalibrationError>(),
      ComputingRoute<kRecalibrate>(),
      ComputingRoute<kCompareModels>(),
  };
  return kRoutes;
}

std::string TemplateOf(const JsonRoute& route) {
  return std::string(route.resource ? kModelTemplate : "") + std::string(route.path);
}

bool IsJsonPath(std::string_view target) {
  return absl::StartsWith(View(target), View(kApiPrefix)) && PathOf(target) != kOpenApiPath;
}

absl::StatusOr<const JsonRoute*> FindJsonRoute(http::verb verb, std::string_view target,
                                               JsonRequest& request) {
  const std::string_view encoded = PathOf(target);
  if (encoded.size() < target.size()) request.query = target.substr(encoded.size() + 1);
  CALIBD_ASSIGN_OR_RETURN(const std::string path, DecodePath(View(encoded)));
  const std::string_view name = std::string_view(path).substr(kApiPrefix.size());
  request.resource = name.substr(0, ResourceLength(name));
  const std::vector<const JsonRoute*> routes = RoutesOf(path);
  for (const JsonRoute* const route : routes) {
    if (route->verb != verb && !(verb == http::verb::head && TakesHead(*route))) continue;
    CALIBD_RETURN_IF_ERROR(CheckNoShortVersion(request.resource));
    return route;
  }
  if (!routes.empty()) {
    return MakeError(absl::StatusCode::kUnimplemented, "METHOD_NOT_ALLOWED",
                     "this path is served for another method, see /v1/openapi.json");
  }
  return MakeError(absl::StatusCode::kNotFound, "UNKNOWN_PATH",
                   "there is no such path, see /v1/openapi.json");
}

std::string AllowedMethods(std::string_view target) {
  if (!IsJsonPath(target)) return "GET, HEAD";
  const absl::StatusOr<std::string> path = DecodePath(View(PathOf(target)));
  if (!path.ok()) return "";
  return absl::StrJoin(RoutesOf(*path), ", ", [](std::string* text, const auto* route) {
    const auto name = http::to_string(route->verb);
    text->append(name.data(), name.size());
    if (TakesHead(*route)) text->append(", HEAD");
  });
}

}  // namespace calibd::server
