#ifndef CALIBD_SERVER_HTTP_OPEN_API_H_
#define CALIBD_SERVER_HTTP_OPEN_API_H_

#include <string>
#include <string_view>

namespace calibd::server {

// The path under which the description is served.
inline constexpr std::string_view kOpenApiPath = "/v1/openapi.json";

// The description of the API over HTTP in OpenAPI 3.1: the paths of JsonRoutes and the messages
// that they use. Cost: some milliseconds.
[[nodiscard]] std::string OpenApiText();

}  // namespace calibd::server

#endif  // CALIBD_SERVER_HTTP_OPEN_API_H_
