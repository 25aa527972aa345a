#ifndef CALIBD_SERVER_FAILPOINT_H_
#define CALIBD_SERVER_FAILPOINT_H_

#include <string_view>

namespace calibd::server {

// Where tests end the process: as by a power cut, with nothing flushed or answered, when the
// point is reached for the N-th time and the environment says CALIBD_FAILPOINT=point:N. Or where
// they hold up whoever reaches it, with CALIBD_FAILPOINT=point@FILE, as long as there is the file.
// Nothing at all in builds without the option CALIBD_FAILPOINTS. Thread-safe.
#ifdef CALIBD_FAILPOINTS
void Failpoint(std::string_view point);
#else
constexpr void Failpoint(std::string_view) noexcept {}
#endif

}  // namespace calibd::server

#endif  // CALIBD_SERVER_FAILPOINT_H_
