#ifndef CALIBD_SERVER_HTTP_OPEN_API_H_
#define CALIBD_SERVER_HTTP_OPEN_API_H_

#include <string_view>

namespace calibd::server {

// The description of the API over HTTP in OpenAPI 3.1, which server/http/generate_openapi.py makes
// of the contract.
[[nodiscard]] std::string_view OpenApiText() noexcept;

}  // namespace calibd::server

#endif  // CALIBD_SERVER_HTTP_OPEN_API_H_
