#ifndef CALIBD_SERVER_FAILPOINT_H_
#define CALIBD_SERVER_FAILPOINT_H_

#include <string_view>

namespace calibd::server {

// Points at which tests disturb the process, as the environment variable CALIBD_FAILPOINT says:
//   point:N     ends it when the point is reached for the N-th time, as by a power cut, with
//               nothing flushed or answered;
//   point!N     throws std::runtime_error there;
//   point@FILE  holds up whoever reaches the point as long as the file exists.
// Does nothing in builds without the option CALIBD_FAILPOINTS. Thread-safe.
#ifdef CALIBD_FAILPOINTS
void Failpoint(std::string_view point);
// The point "method.stage".
void EntryFailpoint(std::string_view method, std::string_view stage);
#else
constexpr void Failpoint(std::string_view) noexcept {}
constexpr void EntryFailpoint(std::string_view, std::string_view) noexcept {}
#endif

}  // namespace calibd::server

#endif  // CALIBD_SERVER_FAILPOINT_H_
