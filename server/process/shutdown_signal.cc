#include "server/process/shutdown_signal.h"

#include <fcntl.h>
#include <pthread.h>
#include <unistd.h>

#include <thread>

namespace calibd::server {
namespace {

// _exit runs no destructors, because a destructor may be what hangs.
extern "C" void ExitNow(int /*signal*/) { _exit(1); }

bool HasTerminal() {
  const int terminal = open("/dev/tty", O_RDONLY | O_NOCTTY | O_CLOEXEC);
  if (terminal < 0) return false;
  close(terminal);
  return true;
}

// Whether something else, such as nohup, has chosen that SIGHUP does nothing.
bool IgnoresHangUp() {
  struct sigaction action {};
  return sigaction(SIGHUP, nullptr, &action) == 0 && action.sa_handler == SIG_IGN;
}

}  // namespace

ShutdownSignal::ShutdownSignal() {
  // The failed call itself reports a closed connection, or a file that may not grow (RLIMIT_FSIZE).
  static_cast<void>(std::signal(SIGPIPE, SIG_IGN));
  static_cast<void>(std::signal(SIGXFSZ, SIG_IGN));
  // If calibd inherited that it is ignored, the exit codes of its child processes would be lost.
  static_cast<void>(std::signal(SIGCHLD, SIG_DFL));
  sigemptyset(&signals_);
  sigaddset(&signals_, SIGTERM);
  sigaddset(&signals_, SIGINT);
  if (HasTerminal() && !IgnoresHangUp()) {
    sigaddset(&signals_, SIGHUP);
  } else {
    static_cast<void>(std::signal(SIGHUP, SIG_IGN));
  }
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
  // The drain goes on when the terminal closes after Ctrl-C.
  static_cast<void>(std::signal(SIGHUP, SIG_IGN));
  pthread_sigmask(SIG_UNBLOCK, &signals_, nullptr);
  std::thread([budget] {
    std::this_thread::sleep_for(budget);
    _exit(1);
  }).detach();
  return std::chrono::steady_clock::now() + budget * 3 / 4;
}

}  // namespace calibd::server
