#include "client/cli/commands/terminal.h"

#include <sys/ioctl.h>
#include <unistd.h>

#include <algorithm>
#include <cstdlib>
#include <string_view>

#include "absl/strings/numbers.h"

namespace calibd::cli {

std::optional<TerminalSize> StandardOutputSize() {
  // Narrower texts have no room for a number with its unit.
  constexpr std::size_t kLeastColumns = 40;
  if (isatty(STDOUT_FILENO) == 0) return std::nullopt;
  TerminalSize size;
  winsize window{};
  if (ioctl(STDOUT_FILENO, TIOCGWINSZ, &window) == 0 && window.ws_col > 0 && window.ws_row > 0) {
    size = {.columns = window.ws_col, .lines = window.ws_row};
  }
  std::size_t columns = 0;
  const char* const variable = std::getenv("COLUMNS");
  if (variable != nullptr && absl::SimpleAtoi(variable, &columns) && columns > 0) {
    size.columns = columns;
  }
  size.columns = std::max(size.columns, kLeastColumns);
  return size;
}

bool HasColors() {
  const auto variable = [](const char* name) {
    const char* const value = std::getenv(name);
    return std::string_view(value == nullptr ? "" : value);
  };
  if (!variable("NO_COLOR").empty()) return false;
  const std::string_view force = variable("CLICOLOR_FORCE");
  if (!force.empty() && force != "0") return true;
  return isatty(STDOUT_FILENO) == 1 && variable("TERM") != "dumb";
}

}  // namespace calibd::cli
