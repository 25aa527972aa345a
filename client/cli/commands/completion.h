#ifndef CALIBD_CLIENT_CLI_COMMANDS_COMPLETION_H_
#define CALIBD_CLIENT_CLI_COMMANDS_COMPLETION_H_

#include <span>
#include <string>

#include "client/cli/commands/command_tree.h"

namespace calibd::cli {

// Scripts that complete commands, options and their values, the names of models that the server
// has, and files. commands: those of CommandsOf.
[[nodiscard]] std::string BashCompletion(std::span<const CommandEntry> commands);
// The script for bash, by zsh's own bashcompinit.
[[nodiscard]] std::string ZshCompletion(std::span<const CommandEntry> commands);
[[nodiscard]] std::string FishCompletion(std::span<const CommandEntry> commands);

}  // namespace calibd::cli

#endif  // CALIBD_CLIENT_CLI_COMMANDS_COMPLETION_H_
