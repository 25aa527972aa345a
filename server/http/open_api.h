#ifndef CALIBD_SERVER_HTTP_OPEN_API_H_
#define CALIBD_SERVER_HTTP_OPEN_API_H_

#include <string>

namespace calibd::server {

// The description of the API over HTTP in OpenAPI 3.1: the paths of JsonRoutes and the messages
// that they use. Cost: some milliseconds.
[[nodiscard]] std::string OpenApiText();

}  // namespace calibd::server

#endif  // CALIBD_SERVER_HTTP_OPEN_API_H_
