#ifndef CALIBD_CLIENT_CLI_COMMANDS_TERMINAL_H_
#define CALIBD_CLIENT_CLI_COMMANDS_TERMINAL_H_

#include <cstddef>
#include <optional>

namespace calibd::cli {

struct TerminalSize {
  std::size_t columns = 80;
  std::size_t lines = 24;
};

// The size of the terminal to which standard output is connected. Unset if standard output is a
// file or a pipe.
// The environment variable COLUMNS replaces the width, as it does for ls. At least 40 columns.
[[nodiscard]] std::optional<TerminalSize> StandardOutputSize();

// Whether texts for people have colours. Of the environment variables, NO_COLOR without an empty
// value removes them, and else CLICOLOR_FORCE with another value than 0 adds them. Without both a
// terminal has them, unless TERM is "dumb", and a file or a pipe has none.
[[nodiscard]] bool HasColors();

}  // namespace calibd::cli

#endif  // CALIBD_CLIENT_CLI_COMMANDS_TERMINAL_H_
