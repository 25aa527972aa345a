#ifndef CALIBD_SERVER_API_PAGINATION_H_
#define CALIBD_SERVER_API_PAGINATION_H_

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "server/access/access_control.h"
#include "server/state/model_registry.h"

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

// Returns up to `limit` models that the caller may read and whose names come after `after`,
// ascending. Errors: Unavailable before the models are recovered. Cost: O(models that are looked
// at).
[[nodiscard]] absl::StatusOr<std::vector<std::shared_ptr<Model>>> ListReadable(
    const ModelRegistry& registry, const Identity& caller, const std::string& after,
    std::size_t limit);

}  // namespace calibd::server

#endif  // CALIBD_SERVER_API_PAGINATION_H_
