#include "client/cli/commands/time_option.h"

#include <algorithm>
#include <charconv>
#include <cmath>

#include "absl/status/status.h"
#include "absl/strings/escaping.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "google/protobuf/util/time_util.h"

namespace calibd::cli {
namespace {

using google::protobuf::util::TimeUtil;

struct Unit {
  char name;
  double seconds;
};
constexpr Unit kUnits[] = {{'d', 86400}, {'h', 3600}, {'m', 60}, {'s', 1}};
// The maximum that fits into an integer of nanoseconds. The server has its own limits.
constexpr double kMaxSeconds = 9e9;
// That of a date such as 2026-01-31, and the least one of a date and a time.
constexpr std::size_t kDateLength = 10;
constexpr std::size_t kTimeLength = 19;

bool IsDigit(char c) { return c >= '0' && c <= '9'; }

// Returns a date or a time as RFC 3339 has it: a date is the beginning of the day in UTC, a blank
// may replace the T, and a zone such as +0100 or +01 may lack its colon or its minutes.
std::string AsRfc3339(std::string_view text) {
  std::string full(text);
  if (full.size() == kDateLength) return full + "T00:00:00Z";
  if (full.size() < kTimeLength) return full;
  if (full[kDateLength] == ' ') full[kDateLength] = 'T';
  const std::size_t sign = full.find_first_of("+-", kTimeLength);
  if (sign == std::string::npos) return full;
  const std::string_view zone = std::string_view(full).substr(sign + 1);
  if (!std::ranges::all_of(zone, IsDigit)) return full;
  if (zone.size() == 2) return full + ":00";
  if (zone.size() == 4) full.insert(sign + 3, ":");
  return full;
}

}  // namespace

absl::StatusOr<google::protobuf::Duration> ParseDuration(std::string_view text) {
  const char* const end = text.data() + text.size();
  double number = 0;
  const auto [parsed, error] = std::from_chars(text.data(), end, number);
  if (error == std::errc() && end - parsed == 1) {
    for (const Unit& unit : kUnits) {
      const double seconds = number * unit.seconds;
      // Written so that NaN is refused.
      if (*parsed != unit.name || !(seconds >= 1e-9 && seconds <= kMaxSeconds)) continue;
      return TimeUtil::NanosecondsToDuration(std::llround(seconds * 1e9));
    }
  }
  return absl::InvalidArgumentError(
      absl::StrCat("'", std::string(text.substr(0, 40)),
                   "' is not a duration, expected a number > 0 followed by its unit s, m, h or d "
                   "(seconds, minutes, hours, days), such as 60s or 1.5h"));
}

std::string ShortDuration(const google::protobuf::Duration& duration) {
  const double seconds = static_cast<double>(TimeUtil::DurationToNanoseconds(duration)) * 1e-9;
  for (const Unit& unit : kUnits) {
    if (seconds >= unit.seconds || unit.name == 's') {
      return absl::StrFormat("%.6g%c", seconds / unit.seconds, unit.name);
    }
  }
  return {};
}

absl::StatusOr<google::protobuf::Timestamp> ParseTime(std::string_view text,
                                                      const google::protobuf::Timestamp& now) {
  google::protobuf::Timestamp time;
  if (TimeUtil::FromString(AsRfc3339(text), &time)) return time;
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

absl::StatusOr<google::protobuf::Timestamp> ParseTimestamp(std::string_view text) {
  google::protobuf::Timestamp time;
  double seconds = 0;
  const char* const end = text.data() + text.size();
  const auto [parsed, error] = std::from_chars(text.data(), end, seconds);
  if (error == std::errc() && parsed == end) {
    const double whole = std::floor(seconds);
    if (whole >= static_cast<double>(TimeUtil::kTimestampMinSeconds) &&
        whole <= static_cast<double>(TimeUtil::kTimestampMaxSeconds)) {
      time.set_seconds(static_cast<std::int64_t>(whole));
      time.set_nanos(static_cast<std::int32_t>((seconds - whole) * 1e9));
      return time;
    }
  }
  if (TimeUtil::FromString(AsRfc3339(text), &time)) return time;
  return absl::InvalidArgumentError(
      absl::StrCat("'", absl::CHexEscape(std::string(text.substr(0, 40))),
                   "' is not a time, expected RFC 3339 with a zone, such as 2026-01-31T12:30:00Z, "
                   "a date such as 2026-01-31 (the beginning of the day in UTC), or seconds (not "
                   "milliseconds) since 1970"));
}

}  // namespace calibd::cli
