#include "server/failpoint.h"

#include <unistd.h>

#include <atomic>
#include <charconv>
#include <csignal>
#include <cstdlib>
#include <string>

namespace calibd::server {
namespace {

struct Armed {
  std::string point;
  int at = 0;
};

Armed Read() {
  Armed armed;
  const char* const variable = std::getenv("CALIBD_FAILPOINT");
  const std::string_view text = variable == nullptr ? "" : variable;
  const std::size_t colon = text.find(':');
  if (colon != std::string_view::npos) {
    armed.point = text.substr(0, colon);
    std::from_chars(text.data() + colon + 1, text.data() + text.size(), armed.at);
  }
  return armed;
}

}  // namespace

void Failpoint(std::string_view point) {
  static const Armed armed = Read();
  static std::atomic<int> reached = 0;
  if (point == armed.point && ++reached == armed.at) {
    kill(getpid(), SIGKILL);
    // Until it arrives.
    while (true) {
      pause();
    }
  }
}

}  // namespace calibd::server
