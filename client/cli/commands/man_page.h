#ifndef CALIBD_CLIENT_CLI_COMMANDS_MAN_PAGE_H_
#define CALIBD_CLIENT_CLI_COMMANDS_MAN_PAGE_H_

#include <span>
#include <string>

#include "client/cli/commands/command_tree.h"

namespace calibd::cli {

// The manual page of a command in the language of man(7), named calibctl-model-create for "model
// create". commands: those of CommandsOf, whose first is calibctl itself.
[[nodiscard]] std::string ManPage(std::span<const CommandEntry> commands,
                                  const CommandEntry& command);

}  // namespace calibd::cli

#endif  // CALIBD_CLIENT_CLI_COMMANDS_MAN_PAGE_H_
