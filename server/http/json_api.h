#ifndef CALIBD_SERVER_HTTP_JSON_API_H_
#define CALIBD_SERVER_HTTP_JSON_API_H_

#include <boost/beast/http/verb.hpp>
#include <span>
#include <string>
#include <string_view>

#include "absl/status/statusor.h"
#include "server/http/http_message.h"
#include "server/http/json_route.h"
#include "server/intake/inference_event.h"

namespace calibd::server {

// The API over HTTP, in the JSON mapping of protobuf: the methods of gRPC under paths.

// The headers of a request that describe a CloudEvent.
[[nodiscard]] InferenceEvent EventOf(const HttpRequest& header);

[[nodiscard]] std::span<const JsonRoute> JsonRoutes();

// The template of the paths of a route, without versions: "/v1/models/{model}/history".
[[nodiscard]] std::string TemplateOf(const JsonRoute& route);

// True for targets below /v1/ that FindJsonRoute knows or refuses: all but kOpenApiPath, with or
// without a query.
[[nodiscard]] bool IsJsonPath(std::string_view target);

// Finds the route of a request with such a target, and sets the resource and the query. Errors:
// NotFound for an unknown path; Unimplemented if the path exists with another verb; InvalidArgument
// for a version in the form M@V, and for a path that is not percent-encoded.
[[nodiscard]] absl::StatusOr<const JsonRoute*> FindJsonRoute(boost::beast::http::verb verb,
                                                             std::string_view target,
                                                             JsonRequest& request);

// The methods of a path for the header Allow: "GET, POST".
[[nodiscard]] std::string AllowedMethods(std::string_view target);

}  // namespace calibd::server

#endif  // CALIBD_SERVER_HTTP_JSON_API_H_
