#include "server/failpoint.h"

#include <unistd.h>

#include <atomic>
#include <charconv>
#include <chrono>
#include <csignal>
#include <cstdlib>
#include <filesystem>
#include <string>
#include <thread>

namespace calibd::server {
namespace {

struct Armed {
  std::string point;
  int at = 0;
  std::string while_file;
};

Armed Read() {
  Armed armed;
  const char* const variable = std::getenv("CALIBD_FAILPOINT");
  const std::string_view text = variable == nullptr ? "" : variable;
  const std::size_t end = text.find_first_of(":@");
  if (end == std::string_view::npos) {
    return armed;
  }
  armed.point = text.substr(0, end);
  if (text[end] == '@') {
    armed.while_file = text.substr(end + 1);
  } else {
    std::from_chars(text.data() + end + 1, text.data() + text.size(), armed.at);
  }
  return armed;
}

}  // namespace

void Failpoint(std::string_view point) {
  static const Armed armed = Read();
  static std::atomic<int> reached = 0;
  if (point != armed.point) {
    return;
  }
  while (!armed.while_file.empty() && std::filesystem::exists(armed.while_file)) {
    std::this_thread::sleep_for(std::chrono::milliseconds(5));
  }
  if (++reached == armed.at) {
    kill(getpid(), SIGKILL);
    // Until it arrives.
    while (true) {
      pause();
    }
  }
}

}  // namespace calibd::server
