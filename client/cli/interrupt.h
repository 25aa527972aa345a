#ifndef CALIBD_CLI_INTERRUPT_H_
#define CALIBD_CLI_INTERRUPT_H_

#include <stop_token>

namespace calibd::cli {

// Turns the first SIGINT or SIGTERM into a stop request and the second into the
// end of the process. Call once, before any thread is started: every thread of
// the process inherits the blocked signals.
[[nodiscard]] std::stop_token StopOnInterrupt();

}  // namespace calibd::cli

#endif  // CALIBD_CLI_INTERRUPT_H_
