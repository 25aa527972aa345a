#include "interrupt.h"

#include <signal.h>

#include <cstdlib>
#include <thread>

namespace calibd::cli {

std::stop_token StopOnInterrupt() {
  sigset_t signals;
  sigemptyset(&signals);
  sigaddset(&signals, SIGINT);
  sigaddset(&signals, SIGTERM);
  pthread_sigmask(SIG_BLOCK, &signals, nullptr);
  std::stop_source source;
  // Runs until the process ends, and owns everything that it uses.
  std::thread([signals, source]() mutable {
    int signal = 0;
    sigwait(&signals, &signal);
    source.request_stop();
    sigwait(&signals, &signal);
    std::_Exit(128 + signal);
  }).detach();
  return source.get_token();
}

}  // namespace calibd::cli
