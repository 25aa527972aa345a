#include "client/cli/commands/command_tree.h"

#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"

namespace calibd::cli {
namespace {

bool IsAny(const CLI::App* /*command*/) { return true; }

// The values of a type such as "TEXT:{table,json}"; empty for other types.
std::vector<std::string> ValuesOf(const std::string& type) {
  const std::size_t open = type.find('{');
  const std::size_t close = type.find('}');
  if (open == std::string::npos || close == std::string::npos) return {};
  return absl::StrSplit(type.substr(open + 1, close - open - 1), ',');
}

OptionEntry EntryOf(const CLI::Option& option) {
  OptionEntry entry;
  entry.description = option.get_description();
  entry.required = option.get_required();
  if (option.get_positional()) {
    entry.names.push_back(option.get_name(true));
    return entry;
  }
  for (const std::string& name : option.get_snames()) entry.names.push_back("-" + name);
  for (const std::string& name : option.get_lnames()) entry.names.push_back("--" + name);
  if (option.get_items_expected_max() > 0) {
    const std::string type = option.get_type_name();
    entry.type = type.substr(0, type.find(':'));
    entry.values = ValuesOf(type);
  }
  return entry;
}

void Add(const CLI::App& app, const std::string& path, std::vector<CommandEntry>& entries) {
  CommandEntry entry;
  entry.path = path;
  entry.description = app.get_description();
  entry.footer = app.get_footer();
  for (const CLI::Option* const option : app.get_options()) {
    (option->get_positional() ? entry.arguments : entry.options).push_back(EntryOf(*option));
  }
  const std::vector<const CLI::App*> commands = app.get_subcommands(IsAny);
  for (const CLI::App* const command : commands) entry.commands.push_back(command->get_name());
  entries.push_back(std::move(entry));
  for (const CLI::App* const command : commands) {
    Add(*command, absl::StrCat(path, path.empty() ? "" : " ", command->get_name()), entries);
  }
}

}  // namespace

std::vector<CommandEntry> CommandsOf(const CLI::App& app) {
  std::vector<CommandEntry> entries;
  Add(app, "", entries);
  return entries;
}

}  // namespace calibd::cli
