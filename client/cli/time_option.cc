#include "time_option.h"

#include <string>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "duration_option.h"
#include "google/protobuf/util/time_util.h"

namespace calibd::cli {

absl::StatusOr<google::protobuf::Timestamp> ParseTime(std::string_view text,
                                                      const google::protobuf::Timestamp& now) {
  using google::protobuf::util::TimeUtil;
  constexpr std::size_t kDateLength = 10;
  google::protobuf::Timestamp time;
  const std::string full =
      absl::StrCat(std::string(text), text.size() == kDateLength ? "T00:00:00Z" : "");
  if (TimeUtil::FromString(full, &time)) return time;
  if (const auto ago = ParseDuration(text); ago.ok()) {
    time = now;
    time -= *ago;
    return time;
  }
  return absl::InvalidArgumentError(
      absl::StrCat("'", std::string(text.substr(0, 40)),
                   "' is not a time, expected a date such as 2026-01-31, a time such as "
                   "2026-01-31T12:30:00Z, or how long ago, in s, m, h or d, such as 7d"));
}

}  // namespace calibd::cli
