#ifndef CALIBD_SERVER_SHUTDOWN_SIGNAL_H_
#define CALIBD_SERVER_SHUTDOWN_SIGNAL_H_

#include <chrono>
#include <csignal>

namespace calibd::server {

// SIGTERM and SIGINT as the request to drain. Make it before any other thread:
// it blocks both for the calling thread and those it starts. Ignores SIGPIPE and
// SIGXFSZ.
class ShutdownSignal {
 public:
  ShutdownSignal();

  // Blocks until the first of the signals comes.
  void Wait();

  // From now on a further signal ends the process at once, and so does the end of
  // the budget; both with exit code 1. Returns a deadline for the drain that
  // leaves time before that.
  std::chrono::steady_clock::time_point ArmWatchdog(std::chrono::seconds budget);

 private:
  sigset_t signals_{};
};

}  // namespace calibd::server

#endif  // CALIBD_SERVER_SHUTDOWN_SIGNAL_H_
