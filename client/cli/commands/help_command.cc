#include <algorithm>
#include <filesystem>
#include <fstream>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_replace.h"
#include "client/cli/commands/command.h"
#include "client/cli/commands/command_tree.h"
#include "client/cli/commands/completion.h"
#include "client/cli/commands/man_page.h"

namespace calibd::cli {
namespace {

struct HelpOptions {
  std::vector<std::string> path;
};

absl::StatusOr<ExitCode> PrintHelp(const CLI::App& app, const HelpOptions& options) {
  const CLI::App* command = &app;
  std::string parent;
  for (const std::string& name : options.path) {
    const auto commands = command->get_subcommands([](const CLI::App*) { return true; });
    const auto found = std::ranges::find(commands, name, &CLI::App::get_name);
    if (found == commands.end()) return UsageFault(DescribeUnknown(name, *command));
    absl::StrAppend(&parent, parent.empty() ? "" : " ",
                    command == &app ? "calibctl" : command->get_name());
    command = *found;
  }
  // CLI::App::help would print that of the command that was parsed, which is this one.
  const std::string name = absl::StrCat(parent, parent.empty() ? "" : " ", command->get_name());
  Print(command->get_formatter()->make_help(command, name, CLI::AppFormatMode::Normal));
  return ExitCode::kOk;
}

struct CompletionOptions {
  std::string shell;
};

absl::StatusOr<ExitCode> PrintCompletion(const CLI::App& app, const CompletionOptions& options) {
  const std::vector<CommandEntry> commands = CommandsOf(app);
  Print(options.shell == "bash"  ? BashCompletion(commands)
        : options.shell == "zsh" ? ZshCompletion(commands)
                                 : FishCompletion(commands));
  return ExitCode::kOk;
}

struct ManOptions {
  std::string folder;
};

absl::StatusOr<ExitCode> WriteManPages(const CLI::App& app, const ManOptions& options) {
  const std::vector<CommandEntry> commands = CommandsOf(app);
  for (const CommandEntry& command : commands) {
    const std::filesystem::path path =
        std::filesystem::path(options.folder) /
        absl::StrCat("calibctl", command.path.empty() ? "" : "-",
                     absl::StrReplaceAll(command.path, {{" ", "-"}}), ".1");
    std::ofstream file(path, std::ios::binary);
    file << ManPage(commands, command);
    file.close();
    if (!file) return absl::UnknownError(absl::StrCat("cannot write ", path.string()));
  }
  return ExitCode::kOk;
}

// Adds a command about the commands of `app`.
template <typename Options>
std::pair<CLI::App*, Options*> AddOwn(CLI::App& app, Context& context, const char* name,
                                      const char* description,
                                      absl::StatusOr<ExitCode> (*run)(const CLI::App&,
                                                                      const Options&)) {
  auto options = std::make_shared<Options>();
  CLI::App* const command = app.add_subcommand(name, description);
  SetRun(*command, context, [run, &app, options] { return run(app, *options); });
  return {command, options.get()};
}

}  // namespace

void AddHelpCommands(CLI::App& app, Context& context) {
  const auto [help, help_options] =
      AddOwn<HelpOptions>(app, context, "help", "Show the help of a command", PrintHelp);
  help->add_option("COMMAND", help_options->path, "the command, such as show or model create");
  const auto [completion, completion_options] = AddOwn<CompletionOptions>(
      app, context, "completion",
      "Print a script that completes commands, options and model names in a shell",
      PrintCompletion);
  completion->add_option("SHELL", completion_options->shell, "bash, zsh or fish")
      ->required()
      ->check(CLI::IsMember({"bash", "zsh", "fish"}));
  completion->footer(
      "Examples: source <(calibctl completion bash)\n"
      "          source <(calibctl completion zsh)\n"
      "          calibctl completion fish | source\n"
      "Put the line into ~/.bashrc, ~/.zshrc or ~/.config/fish/config.fish.");
  const auto [man, man_options] =
      AddOwn<ManOptions>(app, context, "man-pages",
                         "Write a manual page of each command into a folder", WriteManPages);
  man->add_option("FOLDER", man_options->folder, "an existing folder")
      ->required()
      ->check(CLI::ExistingDirectory);
}

}  // namespace calibd::cli
