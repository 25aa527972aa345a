#ifndef CALIBD_SERVER_HTTP_JSON_ROUTE_H_
#define CALIBD_SERVER_HTTP_JSON_ROUTE_H_

#include <google/protobuf/message.h>

#include <boost/beast/http/verb.hpp>
#include <cstddef>
#include <memory>
#include <string>
#include <string_view>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "server/access/access_control.h"
#include "server/intake/inference_event.h"

namespace calibd::server {

class Api;
class JsonCall;

inline constexpr std::string_view kApiPrefix = "/v1/";
// The path under which the description of the API is served.
inline constexpr std::string_view kOpenApiPath = "/v1/openapi.json";

struct JsonRequest {
  // Who calls.
  absl::StatusOr<Identity> identity = absl::UnauthenticatedError("the caller was not identified");
  // The resource that the path names, such as "models/weather/versions/2"; may be empty.
  std::string resource{};
  // The part of the target after "?".
  std::string query{};
  std::string body{};
  // The header Last-Event-ID of a client that continues a stream of events.
  std::string last_event{};
  // The headers of a CloudEvent; its body is `body`.
  InferenceEvent event{};
};

// One path of the API. The contract states verbs and paths: see calibd.rpc.HttpRoute.
struct JsonRoute {
  boost::beast::http::verb verb = boost::beast::http::verb::get;
  // "/v1/models" if the path has no resource, otherwise what follows the resource.
  std::string_view path{};
  bool resource = true;
  // The response is a stream of server-sent events.
  bool events = false;
  // The response is computed for long, and is the last message of a stream in gRPC. The computation
  // ends when the client disconnects.
  bool computes = false;
  // The request is a CloudEvent.
  bool cloud_event = false;
  // Upper bound of the memory that a request occupies for one byte of its body while it is parsed
  // and passed on, besides the body: an empty message in an array takes three bytes in JSON.
  std::size_t memory_per_byte = 32;
  // Parses a request; null for CloudEvents. Errors: InvalidArgument.
  absl::StatusOr<std::unique_ptr<google::protobuf::Message>> (*parse)(const JsonRequest& request) =
      nullptr;
  // Parses the request and calls the API. Errors: those of the parser and, for CloudEvents, of
  // FindModel.
  absl::Status (*serve)(Api& api, const JsonRequest& request, const std::string& caller,
                        const std::shared_ptr<JsonCall>& call) = nullptr;
  // The part of the response that is the answer; null if all of it is. Errors: there is no such
  // part.
  absl::StatusOr<const google::protobuf::Message*> (*part)(
      const google::protobuf::Message& response) = nullptr;
};

}  // namespace calibd::server

#endif  // CALIBD_SERVER_HTTP_JSON_ROUTE_H_
