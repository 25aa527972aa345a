#include <memory>

#include "absl/strings/str_cat.h"
#include "command.h"
#include "progress_bar.h"

namespace calibd::cli {
namespace {

ExitCode Backup(const Context& context, const std::string& path) {
  const auto client = ConnectTo(context);
  if (!client.ok()) return Fail(client.status());
  std::optional<ProgressBar> bar(std::in_place, "copying", "", 1);
  const auto size = (*client)->Backup(path, LongCall(context, kStoreTimeout, *bar));
  bar.reset();
  if (!size.ok()) return Fail(size.status());
  if (context.json()) {
    Json json;
    json["file"] = path;
    json["size_bytes"] = *size;
    PrintJson(json);
  } else {
    Print(absl::StrCat(path, ": ", *size, " bytes\n"));
  }
  return ExitCode::kOk;
}

ExitCode Verify(const Context& context) {
  const auto client = ConnectTo(context);
  if (!client.ok()) return Fail(client.status());
  std::optional<ProgressBar> bar(std::in_place, "verifying", "", 1);
  const auto found = (*client)->Verify(LongCall(context, kStoreTimeout, *bar));
  bar.reset();
  if (!found.ok()) return Fail(found.status());
  if (context.json()) {
    PrintJson(ToJson(*found));
  } else {
    Print(absl::StrCat(
        found->models(), " models, ", found->producers(), " producers, ", found->snapshots(),
        " snapshots, ", found->batches(), " batches of the log with ", found->observations(),
        " observations: ", found->problems_size() == 0 ? "all is well" : "PROBLEMS", "\n"));
    for (const std::string& problem : found->problems()) Print(absl::StrCat("  ", problem, "\n"));
  }
  return found->problems_size() == 0 ? ExitCode::kOk : ExitCode::kError;
}

}  // namespace

void AddStoreCommands(CLI::App& app, Context& context) {
  auto path = std::make_shared<std::string>();
  CLI::App* const backup =
      app.add_subcommand("backup", "Copy the server's store to a file while it serves");
  backup->footer(
      "The file is created only if the copy is complete. To restore it, put it as calibd.db into "
      "an empty folder and start calibd with --data-dir of that folder.\n"
      "Example: calibctl backup calibd-2026-01-31.db");
  backup->add_option("FILE", *path, "file to create")->required();
  backup->callback([path, &context] { context.exit_code = Backup(context, *path); });

  CLI::App* const verify = app.add_subcommand(
      "verify",
      "Check everything that the server has on disk; exit with 0 if it is intact, else with 1");
  verify->footer(
      "Reads the whole store while the server serves: checks that the files are intact, that every "
      "batch and snapshot can be read, and that they are consistent.\n"
      "Example: calibctl verify --output json");
  verify->callback([&context] { context.exit_code = Verify(context); });
}

}  // namespace calibd::cli
