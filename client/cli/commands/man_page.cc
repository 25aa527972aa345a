#include "client/cli/commands/man_page.h"

#include <vector>

#include "absl/strings/ascii.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/strings/str_replace.h"
#include "absl/strings/str_split.h"

namespace calibd::cli {
namespace {

// Text for troff: hyphens stay hyphens, and no line is a request.
std::string Escaped(std::string_view text) {
  std::vector<std::string> lines = absl::StrSplit(
      absl::StrReplaceAll({text.data(), text.size()}, {{"\\", "\\e"}, {"-", "\\-"}}), '\n');
  for (std::string& line : lines) {
    if (line.starts_with('.') || line.starts_with('\'')) line.insert(0, "\\&");
  }
  return absl::StrJoin(lines, "\n");
}

std::string PageName(std::string_view path) {
  return absl::StrCat("calibctl", path.empty() ? "" : "-",
                      absl::StrReplaceAll({path.data(), path.size()}, {{" ", "-"}}));
}

void AddOptions(std::string_view title, std::span<const OptionEntry> options, std::string& page) {
  if (options.empty()) return;
  absl::StrAppend(&page, ".SH ", absl::string_view(title.data(), title.size()), "\n");
  for (const OptionEntry& option : options) {
    absl::StrAppend(&page, ".TP\n\\fB", Escaped(absl::StrJoin(option.names, ", ")), "\\fR");
    if (!option.type.empty()) absl::StrAppend(&page, " \\fI", Escaped(option.type), "\\fR");
    absl::StrAppend(&page, "\n", Escaped(option.description));
    if (!option.values.empty()) {
      absl::StrAppend(&page, " (", Escaped(absl::StrJoin(option.values, ", ")), ")");
    }
    absl::StrAppend(&page, "\n");
  }
}

}  // namespace

std::string ManPage(std::span<const CommandEntry> commands, const CommandEntry& command) {
  const CommandEntry& root = commands.front();
  const std::string name = PageName(command.path);
  std::string page = absl::StrCat(
      ".TH ", absl::StrReplaceAll(absl::AsciiStrToUpper(name), {{"-", "\\-"}}), " 1 \"\" \"calibd ",
      CALIBD_VERSION, "\"\n.SH NAME\n", Escaped(name), " \\- ", Escaped(command.description),
      "\n.SH SYNOPSIS\n.B calibctl", command.path.empty() ? "" : " ", Escaped(command.path), "\n");
  absl::StrAppend(&page, command.options.empty() ? "" : "[\\fIOPTIONS\\fR]\n");
  for (const OptionEntry& argument : command.arguments) {
    const std::string text = absl::StrCat("\\fI", Escaped(argument.names.front()), "\\fR");
    absl::StrAppend(&page, argument.required ? text : absl::StrCat("[", text, "]"), "\n");
  }
  absl::StrAppend(&page, command.commands.empty() ? "" : "\\fICOMMAND\\fR\n");
  AddOptions("ARGUMENTS", command.arguments, page);
  AddOptions("OPTIONS", command.options, page);
  if (!command.path.empty()) AddOptions("GLOBAL OPTIONS", root.options, page);
  if (!command.commands.empty()) {
    absl::StrAppend(&page, ".SH COMMANDS\n");
    for (const CommandEntry& other : commands) {
      for (const std::string& own : command.commands) {
        const std::string path = absl::StrCat(command.path, command.path.empty() ? "" : " ", own);
        if (other.path != path) continue;
        absl::StrAppend(&page, ".TP\n\\fB", Escaped(own), "\\fR\n", Escaped(other.description),
                        "\n");
      }
    }
  }
  if (!command.footer.empty()) {
    absl::StrAppend(&page, ".SH NOTES\n.nf\n", Escaped(command.footer), "\n.fi\n");
  }
  if (!command.path.empty()) absl::StrAppend(&page, ".SH SEE ALSO\n.BR calibctl (1)\n");
  return page;
}

}  // namespace calibd::cli
