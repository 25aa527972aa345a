#ifndef CALIBD_CLIENT_CLI_COMMANDS_COMMAND_TREE_H_
#define CALIBD_CLIENT_CLI_COMMANDS_COMMAND_TREE_H_

#include <string>
#include <vector>

#include "CLI/App.hpp"

namespace calibd::cli {

// An option of a command, as completion scripts and manual pages need it.
struct OptionEntry {
  // "-o" and "--rows-to"; the name alone for an argument without dashes.
  std::vector<std::string> names;
  std::string description;
  // "TEXT", or "" for a flag.
  std::string type;
  // The values that it accepts, if it accepts only these.
  std::vector<std::string> values;
  bool required = false;
};

// A command with what belongs to it.
struct CommandEntry {
  // "model create"; "" for calibctl itself.
  std::string path;
  std::string description;
  std::vector<OptionEntry> arguments;
  std::vector<OptionEntry> options;
  // The last words of the paths of its commands.
  std::vector<std::string> commands;
  std::string footer;
};

// calibctl itself, and then all its commands, each before its own.
[[nodiscard]] std::vector<CommandEntry> CommandsOf(const CLI::App& app);

}  // namespace calibd::cli

#endif  // CALIBD_CLIENT_CLI_COMMANDS_COMMAND_TREE_H_
