#include "server/process/shutdown_signal.h"

#include <pthread.h>
#include <unistd.h>

#include <thread>

namespace calibd::server {
namespace {

// _exit runs no destructors, because a destructor may be what hangs.
extern "C" void ExitNow(int /*signal*/) { _exit(1); }

}  // namespace

ShutdownSignal::ShutdownSignal() {
  // The failed call itself reports a closed connection, or a file that may not grow (RLIMIT_FSIZE).
  static_cast<void>(std::signal(SIGPIPE, SIG_IGN));
  static_cast<void>(std::signal(SIGXFSZ, SIG_IGN));
  sigemptyset(&signals_);
  sigaddset(&signals_, SIGTERM);
  sigaddset(&signals_, SIGINT);
  pthread_sigmask(SIG_BLOCK, &signals_, nullptr);
}

void ShutdownSignal::Wait() {
  int signal = 0;
  while (sigwait(&signals_, &signal) != 0) {
  }
}

std::chrono::steady_clock::time_point ShutdownSignal::ArmWatchdog(std::chrono::seconds budget) {
  static_cast<void>(std::signal(SIGTERM, ExitNow));
  static_cast<void>(std::signal(SIGINT, ExitNow));
  pthread_sigmask(SIG_UNBLOCK, &signals_, nullptr);
  std::thread([budget] {
    std::this_thread::sleep_for(budget);
    _exit(1);
  }).detach();
  return std::chrono::steady_clock::now() + budget * 3 / 4;
}

}  // namespace calibd::server
