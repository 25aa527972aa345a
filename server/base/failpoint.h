#ifndef CALIBD_SERVER_BASE_FAILPOINT_H_
#define CALIBD_SERVER_BASE_FAILPOINT_H_

#include <string_view>

namespace calibd::server {

// Failpoints. The environment variable CALIBD_FAILPOINT of tests activates one of them:
//   point:N ends the process when the point is reached for the N-th time, like a power cut:
//               nothing is flushed or answered;
//   point!N throws std::runtime_error there;
//   point@FILE blocks every thread at the point while the file exists.
// Does nothing in builds without the option CALIBD_FAILPOINTS. Thread-safe.
#ifdef CALIBD_FAILPOINTS
void Failpoint(std::string_view point);
// The failpoint "method.stage".
void EntryFailpoint(std::string_view method, std::string_view stage);
#else
constexpr void Failpoint(std::string_view) noexcept {}
constexpr void EntryFailpoint(std::string_view, std::string_view) noexcept {}
#endif

}  // namespace calibd::server

#endif  // CALIBD_SERVER_BASE_FAILPOINT_H_
