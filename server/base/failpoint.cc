#include "server/base/failpoint.h"

#include <unistd.h>

#include <atomic>
#include <charconv>
#include <chrono>
#include <csignal>
#include <cstdlib>
#include <filesystem>
#include <stdexcept>
#include <string>
#include <thread>

namespace calibd::server {
namespace {

struct Armed {
  std::string point;
  int at = 0;
  bool throws = false;
  std::string while_file;
};

Armed Read() {
  Armed armed;
  const char* const variable = std::getenv("CALIBD_FAILPOINT");
  const std::string_view text = variable == nullptr ? "" : variable;
  const std::size_t end = text.find_first_of(":!@");
  if (end == std::string_view::npos) return armed;
  armed.point = text.substr(0, end);
  if (text[end] == '@') {
    armed.while_file = text.substr(end + 1);
  } else {
    armed.throws = text[end] == '!';
    std::from_chars(text.data() + end + 1, text.data() + text.size(), armed.at);
  }
  return armed;
}

const Armed& TheArmed() {
  static const Armed armed = Read();
  return armed;
}

}  // namespace

void Failpoint(std::string_view point) {
  const Armed& armed = TheArmed();
  static std::atomic<int> reached = 0;
  if (point != armed.point) return;
  while (!armed.while_file.empty() && std::filesystem::exists(armed.while_file)) {
    std::this_thread::sleep_for(std::chrono::milliseconds(5));
  }
  if (++reached == armed.at) {
    if (armed.throws) throw std::runtime_error("failpoint");
    kill(getpid(), SIGKILL);
    // Waits until the signal ends the process.
    while (true) pause();
  }
}

void EntryFailpoint(std::string_view method, std::string_view stage) {
  const std::string& point = TheArmed().point;
  if (point.size() == method.size() + 1 + stage.size() && point.starts_with(method) &&
      point[method.size()] == '.' && point.ends_with(stage)) {
    Failpoint(point);
  }
}

}  // namespace calibd::server
