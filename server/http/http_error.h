#ifndef CALIBD_SERVER_HTTP_HTTP_ERROR_H_
#define CALIBD_SERVER_HTTP_HTTP_ERROR_H_

#include <cstdint>
#include <optional>
#include <string>

#include "absl/status/status.h"
#include "server/executor/fair_shares.h"

namespace calibd::server {

// {"error": {"code", "status", "message", "details"}}, as in Google's APIs.
[[nodiscard]] std::string JsonErrorText(const absl::Status& status);

// HTTP's status for an error. Some reasons have one of their own; otherwise the code has one, as in
// Google's APIs.
[[nodiscard]] unsigned HttpStatusOf(const absl::Status& status);

// The seconds after which the same call may succeed; nothing if it cannot.
[[nodiscard]] std::optional<std::int64_t> RetrySeconds(const absl::Status& status);

// The error of a stream of events for which this caller has no place.
[[nodiscard]] absl::Status TooManyEventStreamsError(const FairShares& streams,
                                                    const std::string& caller);

}  // namespace calibd::server

#endif  // CALIBD_SERVER_HTTP_HTTP_ERROR_H_
