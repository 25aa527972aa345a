#include "server/api/pagination.h"

#include <algorithm>
#include <utility>

#include "absl/strings/escaping.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "calibd/core/status_macros.h"
#include "server/base/errors.h"

namespace calibd::server {
namespace {

constexpr std::int32_t kDefaultPageSize = 100;
constexpr std::int32_t kMaxPageSize = 1000;
// Precedes the name in a page token, so that other text is not accepted as a token.
constexpr char kTokenPrefix[] = "after:";
// Number of models that are read from the registry at a time, because lookups block meanwhile.
constexpr std::size_t kReadAtATime = 256;

}  // namespace

absl::StatusOr<Page> ParsePage(std::int32_t page_size, const std::string& page_token) {
  Page page;
  page.size = static_cast<std::size_t>(page_size == 0 ? kDefaultPageSize
                                                      : std::min(page_size, kMaxPageSize));
  if (!page_token.empty()) {
    if (!absl::WebSafeBase64Unescape(page_token, &page.after) ||
        !absl::StartsWith(page.after, kTokenPrefix)) {
      return InvalidFieldError("page_token",
                               "is not from a previous page, expected its next_page_token");
    }
    page.after.erase(0, sizeof(kTokenPrefix) - 1);
  }
  return page;
}

std::string MakePageToken(const std::string& last_name) {
  return absl::WebSafeBase64Escape(absl::StrCat(kTokenPrefix, last_name));
}

absl::StatusOr<std::vector<std::shared_ptr<Model>>> ListReadable(const ModelRegistry& registry,
                                                                 const Identity& caller,
                                                                 const std::string& after,
                                                                 std::size_t limit) {
  if (caller.unrestricted()) return registry.List(after, limit);
  std::vector<std::shared_ptr<Model>> readable;
  std::string from = after;
  std::size_t listed = kReadAtATime;
  while (listed == kReadAtATime && readable.size() < limit) {
    CALIBD_ASSIGN_OR_RETURN(auto models, registry.List(from, kReadAtATime));
    listed = models.size();
    for (std::shared_ptr<Model>& model : models) {
      from = model->original().name.ToString();
      if (readable.size() < limit && caller.Has(Role::kReader, from)) {
        readable.push_back(std::move(model));
      }
    }
  }
  return readable;
}

}  // namespace calibd::server
