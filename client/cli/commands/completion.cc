#include "client/cli/commands/completion.h"

#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/strings/str_replace.h"

namespace calibd::cli {
namespace {

// Prints the names of the models of the server. A server that does not answer names none.
constexpr char kModelNames[] =
    "calibctl model list --timeout 2 2>/dev/null | awk 'NR > 1 { sub(\"^models/\", \"\", $1); "
    "sub(\"/versions/\", \"@\", $1); print $1 }'";

constexpr char kModel[] = "MODEL";

// Whether an argument is a model that exists. Those after a model are models too, or have no
// completion.
bool TakesModel(const CommandEntry& command) {
  return !command.arguments.empty() && command.arguments.front().names.front() == kModel;
}

// The names of the options of a command and of calibctl itself, which may follow a command.
std::vector<std::string> OptionNames(std::span<const CommandEntry> commands,
                                     const CommandEntry& command) {
  std::vector<std::string> names;
  const auto add = [&](const CommandEntry& entry) {
    for (const OptionEntry& option : entry.options) {
      names.insert(names.end(), option.names.begin(), option.names.end());
    }
  };
  add(command);
  if (!command.path.empty()) add(commands.front());
  return names;
}

// Calls use(command, option) for each option with a value of each command, those of calibctl itself
// included.
template <typename Use>
void ForEachValue(std::span<const CommandEntry> commands, const Use& use) {
  for (const CommandEntry& command : commands) {
    for (const OptionEntry& option : command.options) {
      if (!option.type.empty()) use(command, option);
    }
    if (command.path.empty()) continue;
    for (const OptionEntry& option : commands.front().options) {
      if (!option.type.empty()) use(command, option);
    }
  }
}

// 'text' for a shell.
std::string Quoted(std::string_view text) {
  return absl::StrCat("'", absl::StrReplaceAll({text.data(), text.size()}, {{"'", "'\\''"}}), "'");
}

}  // namespace

std::string BashCompletion(std::span<const CommandEntry> commands) {
  std::vector<std::string> paths;
  for (const CommandEntry& command : commands.subspan(1)) paths.push_back(Quoted(command.path));
  std::string text = absl::StrCat(
      "# Completion of calibctl for bash: source <(calibctl completion bash)\n"
      "_calibctl() {\n"
      "  local current=${COMP_WORDS[COMP_CWORD]} previous=${COMP_WORDS[COMP_CWORD-1]}\n"
      "  local command='' i words=''\n"
      "  for ((i = 1; i < COMP_CWORD; ++i)); do\n"
      "    case \"${command:+$command }${COMP_WORDS[i]}\" in\n"
      "      ",
      absl::StrJoin(paths, "|"),
      ")\n"
      "        command=\"${command:+$command }${COMP_WORDS[i]}\" ;;\n"
      "    esac\n"
      "  done\n"
      "  case \"$command:$previous\" in\n");
  std::vector<std::string> free;
  std::vector<std::string> models;
  ForEachValue(commands, [&](const CommandEntry& command, const OptionEntry& option) {
    for (const std::string& name : option.names) {
      const std::string pattern = Quoted(absl::StrCat(command.path, ":", name));
      if (option.values.empty()) {
        (option.type == kModel ? models : free).push_back(pattern);
      } else {
        absl::StrAppend(&text, "    ", pattern, ") COMPREPLY=($(compgen -W ",
                        Quoted(absl::StrJoin(option.values, " ")),
                        " -- \"$current\")); return ;;\n");
      }
    }
  });
  absl::StrAppend(&text, "    ", absl::StrJoin(models, "|"), ") COMPREPLY=($(compgen -W \"$(",
                  kModelNames, ")\" -- \"$current\")); return ;;\n");
  absl::StrAppend(&text, "    ", absl::StrJoin(free, "|"),
                  ") COMPREPLY=($(compgen -f -- \"$current\")); return ;;\n  esac\n"
                  "  case \"$command\" in\n");
  for (const CommandEntry& command : commands) {
    absl::StrAppend(&text, "    ", Quoted(command.path),
                    ")\n      if [[ $current == -* ]]; then words=",
                    Quoted(absl::StrJoin(OptionNames(commands, command), " ")), "\n");
    if (!command.commands.empty()) {
      absl::StrAppend(&text, "      else words=", Quoted(absl::StrJoin(command.commands, " ")),
                      "\n");
    } else if (TakesModel(command)) {
      absl::StrAppend(&text, "      else words=$(", kModelNames, ")\n");
    }
    absl::StrAppend(&text, "      fi ;;\n");
  }
  absl::StrAppend(&text,
                  "  esac\n"
                  "  COMPREPLY=($(compgen -W \"$words\" -- \"$current\"))\n"
                  "  [[ ${#COMPREPLY[@]} -gt 0 || $current == -* ]] || "
                  "COMPREPLY=($(compgen -f -- \"$current\"))\n"
                  "}\n"
                  "complete -o filenames -F _calibctl calibctl\n");
  return text;
}

std::string ZshCompletion(std::span<const CommandEntry> commands) {
  return "# Completion of calibctl for zsh: source <(calibctl completion zsh)\n"
         "autoload -Uz compinit bashcompinit\n"
         "(( $+functions[compdef] )) || compinit\n"
         "bashcompinit\n" +
         BashCompletion(commands);
}

std::string FishCompletion(std::span<const CommandEntry> commands) {
  std::vector<std::string> paths;
  for (const CommandEntry& command : commands.subspan(1)) paths.push_back(Quoted(command.path));
  std::string text = absl::StrCat(
      "# Completion of calibctl for fish: calibctl completion fish | source\n"
      "function __calibctl_command\n"
      "  set -l command\n"
      "  for word in (commandline -opc)[2..-1]\n"
      "    set -l next (string join -- ' ' $command $word)\n"
      "    contains -- $next ",
      absl::StrJoin(paths, " "),
      "; and set command $next\n"
      "  end\n"
      "  string join ' ' $command\n"
      "end\n");
  const auto complete = [&](const CommandEntry& command, std::string_view rest) {
    const std::string condition =
        absl::StrCat("test (__calibctl_command | string collect -a) = \"", command.path, "\"");
    absl::StrAppend(&text, "complete -c calibctl -n ", Quoted(condition), " ",
                    absl::string_view(rest.data(), rest.size()), "\n");
  };
  for (const CommandEntry& command : commands) {
    for (const std::string& name : command.commands) {
      std::string description;
      for (const CommandEntry& other : commands) {
        const bool is_it = other.path == (command.path.empty() ? name : command.path + " " + name);
        if (is_it) description = other.description;
      }
      complete(command, absl::StrCat("-f -a ", name, " -d ", Quoted(description)));
    }
    if (TakesModel(command)) {
      complete(command, absl::StrCat("-a ", Quoted(absl::StrCat("(", kModelNames, ")"))));
    }
    for (const OptionEntry& option : command.options) {
      std::string rest;
      for (const std::string& name : option.names) {
        const bool is_long = name.starts_with("--");
        absl::StrAppend(&rest, is_long ? "-l " : "-s ", name.substr(is_long ? 2 : 1), " ");
      }
      if (!option.type.empty()) absl::StrAppend(&rest, "-r ");
      if (option.type == kModel) {
        absl::StrAppend(&rest, "-f -a ", Quoted(absl::StrCat("(", kModelNames, ")")), " ");
      }
      if (!option.values.empty()) {
        absl::StrAppend(&rest, "-f -a ", Quoted(absl::StrJoin(option.values, " ")), " ");
      }
      // The options of calibctl itself may follow any command.
      const std::string all = absl::StrCat(rest, "-d ", Quoted(option.description));
      if (command.path.empty()) {
        absl::StrAppend(&text, "complete -c calibctl ", all, "\n");
      } else {
        complete(command, all);
      }
    }
  }
  return text;
}

}  // namespace calibd::cli
