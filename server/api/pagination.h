#ifndef CALIBD_SERVER_API_PAGINATION_H_
#define CALIBD_SERVER_API_PAGINATION_H_

#include <cstddef>
#include <cstdint>
#include <string>

#include "absl/status/statusor.h"

namespace calibd::server {

// A page of a list of models in ascending order of name.
struct Page {
  // The page begins after this name; empty for the first page.
  std::string after;
  std::size_t size = 0;
};

// page_size: >= 0; 0 means 100, larger values are reduced to 1000. page_token: from MakePageToken,
// or empty. Errors: InvalidArgument naming the field.
[[nodiscard]] absl::StatusOr<Page> ParsePage(std::int32_t page_size, const std::string& page_token);

// Returns the token of the page that follows the one ending with this name.
[[nodiscard]] std::string MakePageToken(const std::string& last_name);

}  // namespace calibd::server

#endif  // CALIBD_SERVER_API_PAGINATION_H_
