#include "server/store/backup.h"

#include <filesystem>
#include <memory>
#include <system_error>

#include "server/store/sqlite.h"

namespace calibd::server {
namespace {

// Of one step, between two looks at whether to go on.
constexpr int kPagesPerStep = 1024;

struct FinishBackup {
  void operator()(sqlite3_backup* backup) const noexcept { sqlite3_backup_finish(backup); }
};

absl::Status Copy(const std::string& path, const std::string& copy,
                  const std::function<bool(double)>& progress) {
  absl::StatusOr<Database> from = Database::Open(path);
  if (!from.ok()) {
    return from.status();
  }
  absl::StatusOr<Database> to = Database::Open(copy);
  if (!to.ok()) {
    return to.status();
  }
  // A transaction that reads holds one state of the database for all steps.
  absl::Status status = from->Execute("BEGIN");
  if (status.ok()) {
    status = from->QueryInteger("SELECT count(*) FROM sqlite_master").status();
  }
  if (!status.ok()) {
    return status;
  }
  const std::unique_ptr<sqlite3_backup, FinishBackup> backup(
      sqlite3_backup_init(to->handle(), "main", from->handle(), "main"));
  if (backup == nullptr) {
    return SqliteError(to->handle(), sqlite3_extended_errcode(to->handle()), "begin a backup");
  }
  int code = SQLITE_OK;
  while (code == SQLITE_OK) {
    code = sqlite3_backup_step(backup.get(), kPagesPerStep);
    const int total = sqlite3_backup_pagecount(backup.get());
    const int left = sqlite3_backup_remaining(backup.get());
    if (total > 0 && !progress(static_cast<double>(total - left) / total)) {
      return absl::CancelledError("the backup was stopped");
    }
  }
  return code == SQLITE_DONE ? absl::OkStatus() : SqliteError(to->handle(), code, "make a backup");
}

}  // namespace

absl::Status CopyDatabase(const std::string& path, const std::string& copy,
                          const std::function<bool(double)>& progress) {
  absl::Status status = Copy(path, copy, progress);
  if (!status.ok()) {
    std::error_code error;
    std::filesystem::remove(copy, error);
  }
  return status;
}

}  // namespace calibd::server
