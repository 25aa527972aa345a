#ifndef CALIBD_CLI_INTERRUPT_H_
#define CALIBD_CLI_INTERRUPT_H_

#include <stop_token>

namespace calibd::cli {

// Converts the first SIGINT or SIGTERM to a stop request; the second one ends the process. Call it
// once, before any thread starts: all threads inherit the blocked signals.
[[nodiscard]] std::stop_token StopOnInterrupt();

}  // namespace calibd::cli

#endif  // CALIBD_CLI_INTERRUPT_H_
