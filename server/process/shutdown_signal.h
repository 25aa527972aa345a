#ifndef CALIBD_SERVER_PROCESS_SHUTDOWN_SIGNAL_H_
#define CALIBD_SERVER_PROCESS_SHUTDOWN_SIGNAL_H_

#include <chrono>
#include <csignal>

namespace calibd::server {

// Turns SIGTERM and SIGINT into a request to drain. Create it before any other thread: it blocks
// these signals for the calling thread and the threads that it starts. Ignores SIGPIPE and SIGXFSZ,
// and does not ignore SIGCHLD.
// SIGHUP is also a request to drain where it says that the terminal was closed. A service has no
// terminal: it ignores SIGHUP, by which it is asked to reload, because calibd notices changed files
// itself.
class ShutdownSignal {
 public:
  ShutdownSignal();

  // Blocks until the first signal arrives.
  void Wait();

  // From now on, another signal or the end of the budget ends the process at once with exit code 1.
  // Returns a deadline for the drain that is earlier than the end of the budget.
  std::chrono::steady_clock::time_point ArmWatchdog(std::chrono::seconds budget);

 private:
  sigset_t signals_{};
};

}  // namespace calibd::server

#endif  // CALIBD_SERVER_PROCESS_SHUTDOWN_SIGNAL_H_
