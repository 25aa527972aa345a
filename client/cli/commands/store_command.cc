#include "absl/strings/str_cat.h"
#include "client/cli/commands/command.h"
#include "client/cli/output.pb.h"

namespace calibd::cli {
namespace {

absl::StatusOr<ExitCode> Backup(const Context& context, const std::string& path) {
  CALIBD_ASSIGN_OR_RETURN(const auto client, ConnectTo(context));
  CALIBD_ASSIGN_OR_RETURN(
      const std::int64_t size,
      CallWithProgress(context, "copying", kStoreTimeout,
                       [&](const auto& options) { return client->Backup(path, options); }));
  if (context.json()) {
    WrittenFile file;
    file.set_file(path);
    file.set_size_bytes(size);
    PrintJson(ToJson(file));
  } else {
    Print(absl::StrCat(path, ": ", size, " bytes\n"));
  }
  return ExitCode::kOk;
}

absl::StatusOr<ExitCode> Verify(const Context& context) {
  CALIBD_ASSIGN_OR_RETURN(const auto client, ConnectTo(context));
  CALIBD_ASSIGN_OR_RETURN(
      const v1::Verification found,
      CallWithProgress(context, "verifying", kStoreTimeout,
                       [&](const auto& options) { return client->Verify(options); }));
  if (context.json()) {
    PrintJson(ToJson(found));
  } else {
    Print(absl::StrCat(
        found.models(), " models, ", found.producers(), " producers, ", found.snapshots(),
        " snapshots, ", found.batches(), " batches of the log with ", found.observations(),
        " observations: ", found.problems_size() == 0 ? "no problems" : "PROBLEMS", "\n"));
    for (const std::string& problem : found.problems()) Print(absl::StrCat("  ", problem, "\n"));
  }
  return found.problems_size() == 0 ? ExitCode::kOk : ExitCode::kError;
}

}  // namespace

void AddStoreCommands(CLI::App& app, Context& context) {
  const auto [backup, path] = AddCommand(
      app, context, "backup", "Copy the server's store to a file while it serves", Backup);
  backup->footer(
      "The file is created only if the copy is complete. To restore it, put it as calibd.db into "
      "an empty folder and start calibd with --data-dir of that folder.\n"
      "Example: calibctl backup calibd-2026-01-31.db");
  backup->add_option("FILE", *path, "file to create")->required();

  CLI::App* const verify = app.add_subcommand(
      "verify",
      "Check everything that the server has on disk; exit with 0 if it is intact, else with 1");
  verify->footer(
      "Reads the whole store while the server serves: checks that the files are intact, that every "
      "batch and snapshot can be read, and that they are consistent.\n"
      "Example: calibctl verify --output json");
  SetRun(*verify, context, [&context] { return Verify(context); });
}

}  // namespace calibd::cli
