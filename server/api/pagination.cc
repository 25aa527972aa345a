#include "server/api/pagination.h"

#include <algorithm>

#include "absl/strings/escaping.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "server/base/errors.h"

namespace calibd::server {
namespace {

constexpr std::int32_t kDefaultPageSize = 100;
constexpr std::int32_t kMaxPageSize = 1000;
// Precedes the name in a page token, so that other text is not accepted as a token.
constexpr char kTokenPrefix[] = "after:";

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

}  // namespace calibd::server
